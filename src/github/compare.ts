import { type GitHubApi, ONCE } from './api.js';

/**
 * The merge base of two commits as GitHub's compare API gives it; null when it does not say (no permission, a commit
 * that it does not know, no answer): whoever asks then finds out by git. Fits `MergeBaseLookup` of `repository/`.
 */
export function mergeBaseLookup(
  api: GitHubApi,
): (repository: { owner: string; repo: string }, one: string, other: string) => Promise<string | null> {
  return async ({ owner, repo }, one, other) => {
    const answer = await api.request({
      route: 'GET /repos/{owner}/{repo}/compare/{basehead}',
      // One commit a page: the list of commits is of no interest.
      parameters: { owner, repo, basehead: `${one}...${other}`, per_page: 1 },
      patience: { ...ONCE, waits: [500] },
    });
    if (answer.kind !== 'ok') return null;
    const { merge_base_commit: base } = answer.data as { merge_base_commit?: { sha?: unknown } };
    return typeof base?.sha === 'string' ? base.sha : null;
  };
}
