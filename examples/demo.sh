#!/bin/sh
# Provisions the examples of both clouds on emulated ones, scales a pool, and takes everything down again. Each step is a
# command that can be typed; all that it makes stands in a folder that is removed at the end.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PLANTON_STATE_DIR="$work/state"
unset PULUMI_BACKEND_URL PULUMI_CONFIG_PASSPHRASE PULUMI_CONFIG_PASSPHRASE_FILE PULUMI_HOME 2>/dev/null || true
mkdir "$work/bin"
GOBIN="$work/bin" go install ./cmd/planton
PATH="$work/bin:$PATH"

title() { printf '\n=== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

title "Apply: a network, a firewall, a cluster and two pools on Civo; a network, a cluster and two pools on DigitalOcean"
run planton apply -f examples/civo -f examples/digitalocean --cloud emulated --yes

title "What there is now"
run planton outputs civokubernetesclusters/main --cloud emulated
run planton outputs digitaloceankubernetesclusters/main --cloud emulated

title "Scale one pool from the manifest"
cp -r examples/civo "$work/civo"
sed -i.bak 's/nodeCount: 2 # scaled by the demo/nodeCount: 4/' "$work/civo/pools.yaml"
rm "$work/civo/pools.yaml.bak"
if cmp -s examples/civo/pools.yaml "$work/civo/pools.yaml"; then
	echo "examples/civo/pools.yaml has no line to scale" >&2
	exit 1
fi
run planton apply -f "$work/civo" --cloud emulated --yes

title "A second apply changes nothing"
run planton apply -f "$work/civo" -f examples/digitalocean --cloud emulated --yes -o json >"$work/second.json"
if ! grep -q '^{"type":"result","time":"[^"]*","changed":false,' "$work/second.json"; then
	echo "the second apply changed something:" >&2
	cat "$work/second.json" >&2
	exit 1
fi
echo "no changes"

title "Destroy, in reverse order"
run planton destroy -f "$work/civo" -f examples/digitalocean --cloud emulated --yes

title "Done"
