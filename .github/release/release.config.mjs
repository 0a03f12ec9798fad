// What a release is: Conventional Commits decide its number; it has a changelog, the tag vX.Y.Z, and the major tag.
// An absolute path, because semantic-release looks for plugins beside the file that names them.
export default {
  branches: ['main'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: semantic-release fills it in
  tagFormat: 'v${version}',
  plugins: [
    ['@semantic-release/commit-analyzer', { preset: 'conventionalcommits' }],
    ['@semantic-release/release-notes-generator', { preset: 'conventionalcommits' }],
    '@semantic-release/changelog',
    [
      '@semantic-release/git',
      {
        assets: ['CHANGELOG.md'],
        // biome-ignore lint/suspicious/noTemplateCurlyInString: semantic-release fills it in
        message: 'chore(release): ${nextRelease.version} [skip ci]\n\n${nextRelease.notes}',
      },
    ],
    // Comments on issues and pull requests would need further permissions.
    [
      '@semantic-release/github',
      { successComment: false, failComment: false, failTitle: false, releasedLabels: false },
    ],
    [
      '@semantic-release/exec',
      {
        // biome-ignore lint/suspicious/noTemplateCurlyInString: semantic-release fills it in
        successCmd: 'bash .github/release/move-major-tag.sh "${nextRelease.gitTag}"',
      },
    ],
  ],
};
