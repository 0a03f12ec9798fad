#!/usr/bin/env bash
# Moves the major tag to a release: v1 to the commit of v1.4.2. It is a tag without a release, so that it may move.
# Usage: move-major-tag.sh vX.Y.Z, with GITHUB_TOKEN, GITHUB_SERVER_URL and GITHUB_REPOSITORY.
set -euo pipefail

tag=${1:?the tag of the release}
[[ $tag =~ ^v([0-9]+)\.[0-9]+\.[0-9]+$ ]] || { echo "move-major-tag: $tag is no vX.Y.Z: no major tag is moved" >&2; exit 0; }
major=v${BASH_REMATCH[1]}

git tag --force "$major" "$tag^{commit}"
# By a header of this one command: a token in a URL would be in error messages, and one in the config would stay there.
authorization=$(printf 'x-access-token:%s' "$GITHUB_TOKEN" | base64 --wrap=0)
export GIT_CONFIG_COUNT=1
export GIT_CONFIG_KEY_0="http.$GITHUB_SERVER_URL/.extraheader"
export GIT_CONFIG_VALUE_0="Authorization: Basic $authorization"
git push --force "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY.git" "refs/tags/$major"
echo "$major is $tag now"
