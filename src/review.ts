import { createHash } from 'node:crypto';
import type { Judged } from './apply.js';
import type { Fleet } from './fleet/fleet.js';
import type { ShownPlan, ShownPlanLookup } from './github/reviewed.js';
import { assumeBase } from './plan/assume.js';
import { makePlan } from './plan/make-plan.js';
import { nextSteps } from './plan/next-steps.js';
import type { ClusterPlan } from './plan/plan.js';
import { type Base, prepare } from './plan/prepare.js';
import { type Decided, type Difference, decidedChanges, differencesOf, notVisibleInReview } from './plan/reviewed.js';
import { canonicalDecisions } from './report/plan-json.js';
import type { ReviewReport } from './report/run.js';

export interface ReviewOptions {
  /** Input `require-reviewed-plan`. */
  readonly required: boolean;
  /** Finds what the pull request that brought the head showed; null where there is no GitHub to ask. */
  readonly lookup: (() => Promise<ShownPlanLookup>) | null;
  /** What two commits declare, read with this run's inputs. Throws where the head cannot be had. */
  readonly read: (head: string, base: string | null) => Promise<{ readonly head: Fleet; readonly base: Base }>;
  readonly isAncestor: (ancestor: string, descendant: string) => Promise<'yes' | 'no' | 'unknown'>;
  readonly guardsVersion: string;
}

/**
 * Compares what an apply is about to do with the plan that its pull request showed. Under `require-reviewed-plan` a
 * difference is refused (`plan-differs`), in every cluster of the run and before any write; else it is only told.
 */
export class Review {
  readonly #options: ReviewOptions;
  #reviewed: Reviewed | null = null;
  #report: ReviewReport | null = null;
  #refusal: string | null = null;

  constructor(options: ReviewOptions) {
    this.#options = options;
  }

  /** What the report says; null as long as nothing was compared. */
  get report(): ReviewReport | null {
    return this.#report;
  }

  /**
   * Compares all clusters as they are seen first. Where nothing would be done and no review is asked for, GitHub is not
   * asked. Never throws for what GitHub or the repository lacks.
   */
  async first(judged: readonly Judged[]): Promise<readonly Judged[]> {
    if (!this.#options.required && !judged.some(wantsSomething)) return judged;
    const reviewed = await this.#find();
    this.#reviewed = reviewed;
    const differences = differencesTo(reviewed, judged);
    this.#report = {
      pullRequest: reviewed.pullRequest,
      head: reviewed.shown?.head ?? null,
      why: reviewed.why,
      differences,
      unseen: judged.map((one) => this.#unseen(one)).filter(({ steps }) => steps.length > 0),
    };
    if (this.#options.required) this.#refusal = refusalOf(reviewed, differences);
    return judged.map((one) => this.again(one));
  }

  /** One cluster as it is seen again: it is refused where the run is, or where it differs only now. */
  again(judged: Judged): Judged {
    if (!this.#options.required || this.#reviewed === null) return judged;
    const refusal = this.#refusal ?? refusalOf(this.#reviewed, ownDifferences(this.#reviewed, judged));
    return refusal === null ? judged : { ...judged, intent: { ...judged.intent, planDiffers: refusal } };
  }

  #unseen({ input, observed, intent }: Judged): ReviewReport['unseen'][number] {
    const { steps } = makePlan(input, observed, intent);
    const shown = makePlan(input, assumeBase(input.desired, this.#options.guardsVersion), intent);
    return { cluster: input.desired.cluster.name, steps: notVisibleInReview(steps, shown.steps) };
  }

  async #find(): Promise<Reviewed> {
    const { lookup } = this.#options;
    if (lookup === null) {
      return unknown('There is no pull request to ask GitHub for: run this as a workflow of the fleet repository.');
    }
    const found = await lookup();
    if (found.kind === 'unknown') return unknown(found.why);
    if (found.kind === 'none') return { ...unknown(found.why), pullRequest: found.pullRequest };
    const { shown } = found;
    const not = (why: string): Reviewed => ({ ...unknown(why), pullRequest: shown.pullRequest, shown });
    if (shown.base !== null && (await this.#options.isAncestor(shown.base, shown.head)) !== 'yes') {
      return not(`The plan of pull request ${shown.pullRequest} names a base that is not known to be in its history.`);
    }
    try {
      const clusters = await this.#planAgain(shown);
      if (hashOf(clusters) === shown.hash) return { pullRequest: shown.pullRequest, shown, why: null, clusters };
    } catch (error) {
      return not(
        `The commits of pull request ${shown.pullRequest} cannot be read: ${error instanceof Error ? error.message : error}`,
      );
    }
    return not(
      `The plan that pull request ${shown.pullRequest} showed is not what this run makes of the same commits: the inputs of the two workflows, or their versions of fleet-role, differ.`,
    );
  }

  /** The plan of the pull request's two commits, by the code that made it. */
  async #planAgain(shown: ShownPlan): Promise<readonly ClusterPlan[]> {
    const { head, base } = await this.#options.read(shown.head, shown.base);
    const inputs = prepare(head, base);
    return inputs.map(({ desired: { cluster }, baseCommit, changes, notes }) => {
      return { cluster, base: baseCommit, changes: cluster.valid ? changes : [], steps: [], refusals: [], notes };
    });
  }
}

/** What is known of the plan that was reviewed. */
interface Reviewed {
  readonly pullRequest: number | null;
  readonly shown: ShownPlan | null;
  /** Why there is nothing to compare with; null where `clusters` is what was reviewed. */
  readonly why: string | null;
  readonly clusters: readonly Decided[] | null;
}

function unknown(why: string): Reviewed {
  return { pullRequest: null, shown: null, why, clusters: null };
}

function wantsSomething({ input, observed, intent }: Judged): boolean {
  return input.desired.cluster.valid && nextSteps({ desired: input.desired, observed, intent }).now.length > 0;
}

function decided({ input }: Judged): Decided {
  return { cluster: input.desired.cluster, changes: decidedChanges(input.changes) };
}

function differencesTo({ clusters }: Reviewed, judged: readonly Judged[]): readonly Difference[] {
  return clusters === null ? [] : differencesOf(clusters, judged.map(decided));
}

function ownDifferences(reviewed: Reviewed, judged: Judged): readonly Difference[] {
  const { name } = judged.input.desired.cluster;
  return differencesTo(reviewed, [judged]).filter(({ cluster }) => cluster === name);
}

/** Differences that a refusal names; the report has all. */
const NAMED = 3;

function refusalOf({ why, pullRequest }: Reviewed, differences: readonly Difference[]): string | null {
  const wayOut =
    'Open a pull request whose plan shows this and merge it, or run this once with require-reviewed-plan: false.';
  if (why !== null) return `${why} ${wayOut}`;
  if (differences.length === 0) return null;
  const named = differences.slice(0, NAMED).map(({ cluster, what }) => `${cluster}: ${what}`);
  const more = differences.length > NAMED ? `, and ${differences.length - NAMED} more` : '';
  return `This is not what pull request ${pullRequest} showed: ${named.join('; ')}${more}. ${wayOut}`;
}

function hashOf(clusters: readonly ClusterPlan[]): string {
  const plan = { mode: 'plan', base: null, head: '', inventory: null, observed: false, clusters } as const;
  return createHash('sha256').update(canonicalDecisions(plan)).digest('hex');
}
