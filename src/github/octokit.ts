// The build makes a bundle of its own of this file, dist/octokit.js: nobody else's code is loaded, or has to be read,
// with ours. Imported when the first request is made.
export { getOctokit } from '@actions/github';
