#!/bin/sh
# Unpacks a tarball of dist/build.sh into an empty folder and tries everything that is in it.
set -eu
tarball=$(readlink -f "$1")
folder=$(mktemp -d)
server=
image=
finish() {
	if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
	if [ -n "$image" ]; then buildah_here umount --all >/dev/null 2>&1 || true; fi
	rm -rf "$folder"
}
# Images of its own, which go with the folder; no registry is asked, and no daemon is needed.
buildah_here() {
	buildah --root "$folder/images" --runroot "$folder/images-run" --storage-driver vfs "$@"
}
trap finish EXIT
fail() {
	echo "dist/check.sh: $1" >&2
	exit 1
}

tar -xzf "$tarball" -C "$folder" --strip-components=1
cd "$folder"
for file in rota rota.toml rota.service Containerfile LICENSE README.md completions/rota completions/_rota \
	completions/rota.fish man/rota.1 man/rota-job-add.1 monitoring/grafana.json monitoring/alerts.yml docs/operations.md; do
	[ -s "$file" ] || fail "$file is missing or empty"
done
if command -v readelf >/dev/null 2>&1; then
	if readelf -d rota | grep -q NEEDED; then fail "the binary is not static: $(readelf -d rota | grep NEEDED)"; fi
	if readelf -l rota | grep -q INTERP; then fail "the binary asks for a dynamic linker"; fi
fi
./rota config reference | cmp - rota.toml || fail "rota.toml is not that of the binary"
./rota config show --config rota.toml >/dev/null
bash -n completions/rota || fail "the completions are no script"

# In the image itself, if it can be built here; as in a container of nothing but the binary, if we may: another root,
# another user, no shell.
run="./rota"
settings="ROTA_SERVER__DATA=data/rota ROTA_SERVER__ADMIN_TOKEN_FILE=data/admin.token"
where=$folder
if [ "$(id -u)" -eq 0 ] && command -v chroot >/dev/null 2>&1 && command -v buildah >/dev/null 2>&1; then
	# OCI's own format has no health check.
	buildah_here bud --isolation chroot --format docker -t rota . >build.log 2>&1 || fail "the image: $(cat build.log)"
	image=$(buildah_here from --pull-never rota) || fail "the image is not there"
	# shellcheck disable=SC2016 # a template of Go
	said=$(buildah_here inspect --type image --format '{{with .Docker.Config}}{{.User}} {{.Entrypoint}} {{.Cmd}} {{.Healthcheck.Test}} {{.Volumes}} {{.Env}}{{end}}' rota)
	for part in "65532:65532 [/rota] [serve]" "[CMD /rota health]" "map[/data:" "ROTA_SERVER__DATA=/data/rota"; do
		case $said in *"$part"*) ;; *) fail "the image says: $said" ;; esac
	done
	settings=$(buildah_here inspect --type image --format '{{range .Docker.Config.Env}}{{.}} {{end}}' rota)
	where=$(buildah_here mount "$image")
	[ "$(find "$where" -type f ! -path '*/data/.keep')" = "$where/rota" ] || fail "the image holds: $(find "$where")"
	echo "127.0.0.1 rota.test localhost" >hosts
	mkdir -p "$where/etc"
	cp hosts "$where/etc/hosts"
	run="$(command -v chroot) --userspec=65532:65532 $where /rota"
elif [ "$(id -u)" -eq 0 ] && command -v chroot >/dev/null 2>&1; then
	echo "dist/check.sh: no buildah here, so no image is built"
	mkdir -p root/data root/etc
	cp rota root/rota
	echo "127.0.0.1 rota.test localhost" >root/etc/hosts
	chown 65532:65532 root/data
	chmod 755 . root root/etc
	# By its whole path: the environment is emptied, and it often lies in a folder for administrators.
	run="$(command -v chroot) --userspec=65532:65532 root /rota"
	where=$folder/root
fi
# shellcheck disable=SC2086 # words
env -i $settings ROTA_SERVER__LISTEN=127.0.0.1:0 $run serve >"$folder/server.log" 2>&1 &
server=$!
tries=0
until grep -q "^listening on" "$folder/server.log"; do
	kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$folder/server.log")"
	tries=$((tries + 1))
	[ "$tries" -lt 600 ] || fail "the server does not listen: $(cat "$folder/server.log")"
	sleep 0.1
done
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$folder/server.log")
# By name: whether the binary resolves one by itself.
host=127.0.0.1
if [ "$where" != "$folder" ]; then host=rota.test; fi
# shellcheck disable=SC2086
$run health --server "http://$host:$port" || fail "it does not live"
ROTA_TOKEN=$(cat "$where/data/admin.token") ./rota job list --server "http://127.0.0.1:$port" --json >/dev/null
kill "$server"
wait "$server" || fail "it did not stop well: $(cat "$folder/server.log")"
server=

if command -v systemd-analyze >/dev/null 2>&1; then
	sed "s|/usr/local/bin/rota|$folder/rota|" rota.service >"$folder/rota-check.service"
	said=$(systemd-analyze verify "$folder/rota-check.service" 2>&1) || fail "the unit: $said"
	if echo "$said" | grep -q rota-check; then fail "the unit: $said"; fi
fi
echo "dist/check.sh: $(basename "$tarball") is well${image:+, and so is its image}"
