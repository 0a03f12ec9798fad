/** The closed list of what fleet-role runs on a Compose host (section 4, "Observation"), each as a pattern of its words. */
const KUBECTL = [
  /^get nodes( .*)?$/,
  /^get namespace kube-system( .*)?$/,
  /^get --raw \/(db\/info|readyz)$/,
  /^(get|create|replace) .*(lease|configmap).*$/,
  /^(patch node|label|annotate|cordon|uncordon|get pods|drain) ?.*$/,
  /^delete secret \S+\.node-password\.k3s( .*)?$/,
  /^delete node \S+ .*--wait=false.*$/,
];
const DOCKER = [
  /^inspect --type (container|volume) --format \S.*$/s,
  /^compose --project-name \S+ --project-directory \/.*( -f \/.*)+ up -d --no-deps( --no-start)?( --force-recreate)? (k3s|k3s-agent)$/,
  /^compose --project-name \S+ --project-directory \/.*( -f \/.*)+ stop -t 30 (k3s|k3s-agent)$/,
  /^restart( -t \d+)? [\w.-]+$/,
  /^update --restart[ =]\S+ [\w.-]+$/,
  // Never with --rm or -v: either would remove a node's volume without a name once the node's container is gone.
  /^run --name fleet-role-look-[\w.-]+ --label fleet-role\.look=\S+ --volumes-from [\w.-]+(:ro)? .*--entrypoint sh sha256:[0-9a-f]+ -c .*$/s,
  /^rm -f (fleet-role-look-[\w.-]+|[0-9a-f]{64})$/,
];

/** The call of `docker` in words when it is not in the list; empty when it is. */
export function outsideTheList(call: readonly string[]): string[] {
  const words = (call[0] === '--context' ? call.slice(2) : call).join(' ');
  const kubectl = /^exec( -i)? [\w.-]+ kubectl (.*)$/s.exec(words)?.[2];
  const known =
    kubectl === undefined ? DOCKER.some((one) => one.test(words)) : KUBECTL.some((one) => one.test(kubectl));
  return known ? [] : [words];
}
