// Each guard, and the edit that disables it. `from` occurs exactly once in `file`; with `to` in its place the file must
// still be a valid one, and the covering `test` (a file, and a pattern on its full name) must go red.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the text is sh

const ENTRYPOINT = 'src/node/node-entrypoint.sh';
const NATIVE = 'src/node/fleet-role-is.sh';
const OVERRIDE = 'src/node/docker-compose.fleet-role.yml';
const SECOND_OVERRIDE = 'src/node/docker-compose.fleet-role-entrypoint.yml';

const guards = (name) => ({ file: 'test/node/entrypoint.test.ts', name });
const start = (name) => ({ file: 'test/node/start.test.ts', name });
const headscale = (name) => ({ file: 'test/node/headscale.test.ts', name });
const native = (name) => ({ file: 'test/node/native.test.ts', name });
const files = (name) => ({ file: 'test/node/files.test.ts', name });

const mount = (service) => `  ${service}:
    volumes:
      - type: bind
        source: ./fleet-role.d
        target: /etc/github-runner
        read_only: true
        bind:
          create_host_path: false
`;

export const MUTATIONS = [
  {
    name: 'role comparison: any word will do',
    file: ENTRYPOINT,
    from: '[ "$content" = "$service" ] ||',
    to: '[ -n "$content" ] ||',
    test: guards('guard 1, the role > server idles when role holds "agent'),
  },
  {
    name: 'role: an empty file is as an absent one',
    file: ENTRYPOINT,
    from: 'if is_there "$role_dir/role"; then',
    to: 'if [ -s "$role_dir/role" ]; then',
    test: guards('guard 1, the role > server idles when role holds ""'),
  },
  {
    name: 'role: one that cannot be read is as an absent one',
    file: ENTRYPOINT,
    from: 'read_words "$role_dir/role" || content=\n',
    to: 'read_words "$role_dir/role" || content=$service\n',
    test: guards('idles when role cannot be read'),
  },
  {
    name: 'tombstone test',
    file: ENTRYPOINT,
    from: '[ "$service" = server ] && has_tombstone',
    to: 'false && has_tombstone',
    test: guards('guard 2, the tombstone > a server idles'),
  },
  {
    name: 'tombstone: the agent is caught too',
    file: ENTRYPOINT,
    from: '[ "$service" = server ] && has_tombstone',
    to: 'has_tombstone',
    test: guards('guard 2, the tombstone > an agent is not affected'),
  },
  {
    name: 'datastore test weakened to a directory test',
    file: ENTRYPOINT,
    from: '[ -d "$server_dir/db/etcd/member/wal" ] || [ -f "$server_dir/db/state.db" ]',
    to: '[ -d "$server_dir/db" ]',
    test: guards('guard 4, the former member > with (an empty server/db|only)'),
  },
  {
    name: 'datastore test: SQLite forgotten',
    file: ENTRYPOINT,
    from: ' || [ -f "$server_dir/db/state.db" ]',
    to: '',
    test: guards('guard 4, the former member > a sqlite datastore beside'),
  },
  {
    name: 'datastore test dropped from the refusal',
    file: ENTRYPOINT,
    from: ' && has_set_aside && ! has_datastore; then',
    to: ' && has_set_aside; then',
    test: guards('datastore beside the one set aside lifts it'),
  },
  {
    name: 'refusal made false',
    file: ENTRYPOINT,
    from: 'if [ "$service" = server ] && [ -z "$join_url" ] && has_set_aside',
    to: 'if false && [ -z "$join_url" ] && has_set_aside',
    test: guards('guard 4, the former member > with no server/db'),
  },
  {
    name: 'set-aside datastore dropped from the refusal',
    file: ENTRYPOINT,
    from: ' && [ -z "$join_url" ] && has_set_aside && ! has_datastore',
    to: ' && [ -z "$join_url" ] && ! has_datastore',
    test: guards('without one set aside nothing is refused'),
  },
  {
    name: 'set-aside datastore: a numbered one forgotten',
    file: ENTRYPOINT,
    from: 'set -- "$server_dir"/db.demoted*',
    to: 'set -- "$server_dir"/db.demoted',
    test: guards('is a datastore set aside'),
  },
  {
    name: 'join URL dropped from the refusal',
    file: ENTRYPOINT,
    from: ' && [ -z "$join_url" ] && has_set_aside && ! has_datastore',
    to: ' && has_set_aside && ! has_datastore',
    test: guards('guard 4, the former member > a join URL from'),
  },
  {
    name: 'join-url precedence: the environment first',
    file: ENTRYPOINT,
    from: '  join_url=$content\n  if [ -z "$join_url" ]; then\n',
    to: '  join_url=$content\n  if [ -n "${K3S_JOIN_SERVER_URL:-}${K3S_URL:-}" ]; then\n',
    test: guards('guard 3, the join URL > the file before the environment'),
  },
  {
    name: 'bad URL taken as none',
    file: ENTRYPOINT,
    from: '|| idle "the join URL \'$join_url\' is no https URL"',
    to: '|| join_url=',
    test: guards('guard 3, the join URL > http://node1:6443 is a bad one'),
  },
  {
    name: 'join-url that cannot be read taken as none',
    file: ENTRYPOINT,
    from: 'read_words "$join_url_file" || idle "$join_url_file cannot be read"',
    to: 'read_words "$join_url_file"',
    test: guards('guard 3, the join URL > a file that cannot be read'),
  },
  {
    name: 'token guard',
    file: ENTRYPOINT,
    from: ' && ! has_datastore && ! has_token; then',
    to: ' && ! has_datastore && false; then',
    test: guards('guard 5, the token > with nothing a server'),
  },
  {
    name: 'token guard: an empty token file counts',
    file: ENTRYPOINT,
    from: ' && read_words "$K3S_TOKEN_FILE" && [ -n "$content" ]; then',
    to: '; then',
    test: guards('guard 5, the token > with an empty token file'),
  },
  {
    name: 'first-bootstrap question',
    file: ENTRYPOINT,
    from: 'if answers "$url"; then',
    to: 'if false; then',
    test: guards('guard 6, the first bootstrap > pong is an answer'),
  },
  {
    name: 'first-bootstrap question: 401 is no answer',
    file: ENTRYPOINT,
    from: "*'Error from server'* | *'must be logged in'* | *Unauthorized* | *Forbidden*) return 0 ;;",
    to: "*'Error from server'* | *'must be logged in'* | *Unauthorized* | *Forbidden*) return 1 ;;",
    test: guards('guard 6, the first bootstrap > 401 is an answer'),
  },
  {
    name: 'wait for the chosen host: none',
    file: ENTRYPOINT,
    from: 'if resolves "$join_host"; then',
    to: 'if :; then',
    test: start('the wait for the join host > (server|agent) waits for the host of the file'),
  },
  {
    name: 'wait for the chosen host: the one of the environment',
    file: ENTRYPOINT,
    from: 'if resolves "$join_host"; then',
    to: 'if is_https_url "${K3S_URL:-$join_url}" && resolves "$join_host"; then',
    test: start('the wait for the join host > agent waits for the host of the file'),
  },
  {
    name: 'wait: a server with a datastore waits too',
    file: ENTRYPOINT,
    from: '    if [ "$service" = server ] && has_datastore; then\n      return 0\n    fi\n    if resolves',
    to: '    if resolves',
    test: start('datastore waits for nobody'),
  },
  {
    name: 'the second call of the guards',
    file: ENTRYPOINT,
    from: '  ask_before_first_bootstrap\n  guards\n',
    to: '  ask_before_first_bootstrap\n',
    test: guards('the guards come again before the start > a role that changed while the host'),
  },
  {
    name: "the call in the supervisor's loop",
    file: ENTRYPOINT,
    from: '  while :; do\n    before_start\n',
    to: '  before_start\n  while :; do\n',
    test: headscale('come before each start on the mesh'),
  },
  {
    name: 'guards moved after Tailscale',
    file: ENTRYPOINT,
    from: '\nguards\njoin_mesh\nbefore_start\n',
    to: '\njoin_mesh\nguards\nbefore_start\n',
    test: guards('guard 1, the role > server idles when role holds "agent'),
  },
  {
    name: 'guards left out of the Headscale path',
    file: ENTRYPOINT,
    from: '    guards\n    if [ -n "$on_mesh" ]; then\n',
    to: '    choose_join_url\n    if [ -n "$on_mesh" ]; then\n',
    test: headscale('the guards > come before everything'),
  },
  {
    name: 'Headscale path: a server that is to join starts off the mesh',
    file: ENTRYPOINT,
    from: 'elif [ -z "$join_url" ] || has_datastore; then',
    to: 'elif :; then',
    test: headscale('waits for the health URL'),
  },
  {
    name: 'idle by `exec sleep`',
    file: ENTRYPOINT,
    from: '  while :; do\n    sleep 3600 &\n    pause_pid=$!\n    wait "$pause_pid"\n  done\n',
    to: '  exec sleep 3600\n',
    test: guards('guard 1, the role > server idles when role holds "agent'),
  },
  {
    name: 'idle keeps Tailscale',
    file: ENTRYPOINT,
    from: "exit 0' TERM INT\n  end_helpers\n",
    to: "exit 0' TERM INT\n",
    test: guards('an idle service keeps no Tailscale'),
  },
  {
    name: 'native role comparison',
    file: NATIVE,
    from: '[ "$content" = "$role" ] || skip',
    to: '[ -n "$content" ] || skip',
    test: native('server with a role file that holds "agent"'),
  },
  {
    name: 'native tombstone',
    file: NATIVE,
    from: 'if has_tombstone; then',
    to: 'if false; then',
    test: native('a tombstone skips the server'),
  },
  {
    name: 'native server directory',
    file: NATIVE,
    from: 'if [ -z "$server_dir" ] || ! [ -d "$server_dir" ]; then',
    to: 'if false; then',
    test: native('a server directory that is missing'),
  },
  {
    name: 'native former member',
    file: NATIVE,
    from: 'if [ -z "$join_url" ] && has_set_aside && ! has_datastore; then',
    to: 'if false; then',
    test: native('the former member > with no datastore'),
  },
  {
    name: 'native datastore test weakened to a directory test',
    file: NATIVE,
    from: '[ -d "$server_dir/db/etcd/member/wal" ] || [ -f "$server_dir/db/state.db" ]',
    to: '[ -d "$server_dir/db" ]',
    test: native('the former member > with (an empty db|only)'),
  },
  {
    name: 'native bad URL taken as none',
    file: NATIVE,
    from: '  skip "the join URL \'$join_url\' is no https URL"\n',
    to: '  join_url=\n',
    test: native('the join URL > http://node1:6443 is no URL'),
  },
  {
    name: 'native token',
    file: NATIVE,
    from: '! has_token && ! has_token_in_unit; then',
    to: 'false; then',
    test: native('the token > a joiner without one'),
  },
  {
    name: 'native URL that k3s would not get',
    file: NATIVE,
    from: 'elif [ -n "${FLEET_ROLE_UNIT:-}" ] && [ -z "${K3S_URL:-}" ] && ! has_datastore; then',
    to: 'elif false; then',
    test: native('under the drop-in a URL that k3s would not get'),
  },
  ...[OVERRIDE, SECOND_OVERRIDE].flatMap((file) => {
    const lines = (service, role) =>
      file === OVERRIDE
        ? mount(service)
        : mount(service).replace(':\n', `:\n    entrypoint: [/etc/github-runner/node-entrypoint.sh, ${role}]\n`);
    const form = file === OVERRIDE ? 'the override' : "the override's second form";
    return [
      ['k3s', 'server'],
      ['k3s-agent', 'agent'],
    ].map(([service, role]) => ({
      name: `the mount removed from ${form}, for ${service}`,
      file,
      from: lines(service, role),
      to: `  ${service}: {}\n`,
      test: files(file === OVERRIDE ? 'the override > mounts the role directory' : 'the override > its second form'),
    }));
  }),
  {
    name: 'the drop-in of k3s asks for the role only',
    file: 'src/node/systemd/k3s.service.d/fleet-role.conf',
    from: ' server /etc/github-runner/role "@DATA_DIR@/server" /etc/github-runner/join-url',
    to: ' server /etc/github-runner/role',
    test: files('the drop-ins > the one of k3s asks the guard'),
  },
  {
    name: "the override's listing rule: listed at once, containers or not",
    file: 'src/plan/steps/override.ts',
    from: ' || !mayBeListed(now)) return [];',
    to: ') return [];',
    test: { file: 'test/plan/plan.test.ts', name: 'lists the override at once only where docker says' },
  },
];
