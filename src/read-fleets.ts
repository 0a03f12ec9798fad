import { UserError } from './errors.js';
import { declareFleet, vanishedIntoGroups } from './fleet/declare.js';
import type { ExplainedInventory } from './fleet/explain.js';
import type { Fleet } from './fleet/fleet.js';
import { ParseCache } from './fleet/inventory/parse-cache.js';
import { type ReadOptions, readInventory, wantedEntries } from './fleet/inventory/read.js';
import type { LayoutInputs } from './fleet/layout.js';
import { type MovedBase, movedBase } from './fleet/moved-base.js';
import { isNeeded } from './fleet/variables.js';
import type { BaseSpec, HeadSpec } from './github/events.js';
import type { Logger } from './log.js';
import { type Base, NO_BASE } from './plan/prepare.js';
import type { Repository } from './repository/repository.js';
import type { Snapshot } from './repository/snapshot.js';
import { CommitError } from './repository/source.js';
import type { Settings } from './settings.js';

/** Decrypted values of fewer characters are not masked: the log would lose every such word. */
const SHORTEST_SECRET = 4;

/** The fleet at the two commits of a run. */
export interface Fleets {
  readonly head: Fleet;
  readonly base: Base;
  /** Of a pull request: what its base branch has done to the inventory since the merge base; null where nothing. */
  readonly movedBase: MovedBase | null;
  /** For mode explain alone: what the head's inventory holds beside the fleet. */
  readonly explained: ExplainedInventory | null;
  /**
   * What another commit declares, for a cluster whose record names it. Works while the repository is open; what was
   * read already is not read again.
   */
  readonly at: (commit: string) => Promise<Base>;
}

/**
 * Reads what head and base declare. A head that cannot be had is a UserError; a base that cannot be had is a value with
 * the reason, and never an empty inventory. What was decrypted is given to `mask`.
 */
export async function readFleets(
  repository: Repository,
  head: HeadSpec,
  base: BaseSpec,
  settings: Settings,
  logger: Logger,
  mask: (secret: string) => void,
): Promise<Fleets> {
  const headCommit = await resolveHead(repository, head);
  const found = await resolveBase(repository, base, headCommit);
  const options: ReadOptions = {
    inventory: settings.inventory,
    playbookDir: settings.playbookDir,
    vaultPassword: settings.vaultPassword,
    // Which layout it is shows only once the inventory is read.
    needed: (variable) => isNeeded(variable, settings.layout === 'ordered' ? 'ordered' : 'groups'),
  };
  const wanted = (entries: Snapshot['entries']): readonly string[] => wantedEntries(entries, options);
  // A file that both commits share is parsed once.
  const cache = new ParseCache();
  const declare = (snapshot: Snapshot): Declared => {
    const inventory = readInventory(snapshot, options, cache);
    // Before anything of it is shown. A shorter text would blot out harmless words.
    for (const secret of inventory.secrets ?? []) if (secret.length >= SHORTEST_SECRET) mask(secret);
    const explained = (): ExplainedInventory => ({
      inventory,
      // With a cache of its own: the other one holds what was decrypted.
      locked: options.vaultPassword === null ? inventory : readInventory(snapshot, { ...options, vaultPassword: null }),
    });
    const as = (layout: LayoutInputs['layout']): Fleet =>
      declareFleet(snapshot.commit, inventory, settings.clusterGroups, { ...settings, layout });
    return { fleet: as(settings.layout), explained, as };
  };
  const readBase = async (commit: string): Promise<Base> => {
    try {
      const [snapshot] = await repository.snapshot([commit], wanted);
      return { commit, fleet: declare(present(snapshot)).fleet, unreadable: null };
    } catch (error) {
      if (!(error instanceof CommitError)) throw error;
      return { ...NO_BASE, unreadable: error.message };
    }
  };
  const together = (declared: Declared, base: Base, moved: MovedBase | null = null): Fleets => {
    const vanished =
      settings.layout === 'auto' && base.fleet !== null && vanishedIntoGroups(declared.fleet, base.fleet);
    const fleet = vanished ? declared.as('ordered') : declared.fleet;
    const readable = fleet.clusters.some((cluster) => cluster.readable);
    if (settings.layout === 'auto' && (readable || vanished)) {
      const reason = vanished ? 'the base has it, and the head lost its group' : fleet.layout.reason;
      logger.info(`Layout ${fleet.layout.kind}: ${reason}.`);
    }
    const read = new Map<string, Base>([[fleet.commit, { commit: fleet.commit, fleet, unreadable: null }]]);
    if (base.commit !== null) read.set(base.commit, base);
    const at = async (commit: string): Promise<Base> => {
      const known = read.get(commit) ?? (await readBase(commit));
      read.set(commit, known);
      return known;
    };
    return {
      head: fleet,
      base,
      movedBase: moved,
      explained: settings.mode === 'explain' ? declared.explained() : null,
      at,
    };
  };

  if (found.commit === null || found.commit === headCommit) {
    const [snapshot] = await repository.snapshot([headCommit], wanted);
    const declared = declare(present(snapshot));
    const same = found.commit === null ? null : declared.fleet;
    return together(declared, { commit: found.commit, fleet: same, unreadable: found.unreadable });
  }
  const tip = base.kind === 'merge-base' && base.tip !== found.commit ? base.tip : null;
  try {
    const [first, second, third] = await snapshots(repository, headCommit, found.commit, tip, wanted);
    const readable = { commit: found.commit, fleet: declare(present(second)).fleet, unreadable: null };
    const moved = base.kind === 'merge-base' ? movedBase(base.branch, present(second), third ?? null, wanted) : null;
    return together(declare(present(first)), readable, moved);
  } catch (error) {
    if (!(error instanceof CommitError) || error.commit !== found.commit) throw error;
    const [snapshot] = await repository.snapshot([headCommit], wanted);
    return together(declare(present(snapshot)), { ...NO_BASE, unreadable: error.message });
  }
}

/** Head, base and, where it can be had, the tip of the base branch: of that one only the names of its files matter. */
async function snapshots(
  repository: Repository,
  head: string,
  base: string,
  tip: string | null,
  wanted: (entries: Snapshot['entries']) => readonly string[],
): Promise<readonly Snapshot[]> {
  if (tip === null) return repository.snapshot([head, base], wanted);
  try {
    return await repository.snapshot([head, base, tip], wanted);
  } catch (error) {
    if (!(error instanceof CommitError) || error.commit !== tip) throw error;
    return repository.snapshot([head, base], wanted);
  }
}

/** What one commit declares, and the means to read it in another way. */
interface Declared {
  readonly fleet: Fleet;
  readonly explained: () => ExplainedInventory;
  readonly as: (layout: LayoutInputs['layout']) => Fleet;
}

async function resolveHead(repository: Repository, head: HeadSpec): Promise<string> {
  switch (head.kind) {
    case 'sha':
      return head.sha;
    case 'ref':
      return repository.resolve(head.ref, 'ref');
    case 'default-branch':
      return repository.defaultBranchHead();
  }
}

interface FoundBase {
  readonly commit: string | null;
  readonly unreadable: string | null;
}

async function resolveBase(repository: Repository, base: BaseSpec, head: string): Promise<FoundBase> {
  const at = (commit: string | null): FoundBase => ({ commit, unreadable: null });
  switch (base.kind) {
    case 'none':
      return at(null);
    case 'sha':
      return at(base.sha);
    case 'ref':
      return at(await repository.resolve(base.ref, 'base-ref'));
    case 'merge-base': {
      const commit = await repository.mergeBase(base.tip, head);
      if (commit !== null) return at(commit);
      const why = `The merge base of the pull request with ${base.branch} cannot be found.`;
      return { commit: null, unreadable: why };
    }
    case 'record':
      // What stands in for a record that was not read yet counts when it is known to be an ancestor.
      return at(base.orElse.kind === 'ancestor' ? await knownAncestor(repository, base.orElse.sha, head) : null);
  }
}

export async function knownAncestor(repository: Repository, commit: string, head: string): Promise<string | null> {
  return (await repository.isAncestor(commit, head)) === 'yes' ? commit : null;
}

function present(snapshot: Snapshot | undefined): Snapshot {
  if (snapshot === undefined) throw new UserError('The fleet repository gave no tree for a commit that it has.');
  return snapshot;
}
