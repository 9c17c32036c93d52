#!/bin/sh
# Builds a tarball that needs nothing on the machine that it is unpacked on: target/dist/rota-VERSION-linux-ARCH.tar.gz.
# PROFILE=dev builds faster, for trying it out. CARGO names another cargo.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
profile=${PROFILE:-release}
arch=$(uname -m)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# With musl if its standard library is there, else with glibc: both give a static binary. A glibc from 2.34 on resolves
# names by files and DNS within the binary; other services that /etc/nsswitch.conf may name are passed over.
target=$arch-unknown-linux-gnu
if [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$arch-unknown-linux-musl/lib" ] && command -v musl-gcc >/dev/null 2>&1; then
	target=$arch-unknown-linux-musl
fi
flags_of=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_RUSTFLAGS
# A static binary does not find libc's getrandom by itself and would need /dev/random and /dev/urandom: it is named here, so
# that the server runs where there is nothing else.
flags='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"'
env "$flags_of=$flags" "$cargo" build --locked --package rota --features otlp --profile "$profile" --target "$target"

case $profile in dev) folder=debug ;; *) folder=$profile ;; esac
built=target/$target/$folder/rota
name=rota-$version-linux-$arch
stage=target/dist/$name
rm -rf "$stage"
mkdir -p "$stage/completions" "$stage/monitoring" "$stage/docs" "$stage/data"
cp "$built" "$stage/rota"
if command -v strip >/dev/null 2>&1; then
	# Names of functions stay, for the traces of panics.
	strip --strip-debug "$stage/rota"
fi
cp LICENSE README.md "$stage"
cp -R docs/. "$stage/docs"
cp dist/rota.service dist/Containerfile "$stage"
cp dist/grafana.json dist/alerts.yml "$stage/monitoring"
: >"$stage/data/.keep"
"$stage/rota" config reference >"$stage/rota.toml"
"$stage/rota" completions bash >"$stage/completions/rota"
"$stage/rota" completions zsh >"$stage/completions/_rota"
"$stage/rota" completions fish >"$stage/completions/rota.fish"
"$stage/rota" man "$stage/man"

# The same content gives the same archive, whoever packs it and when.
moment=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --sort=name --mtime="@$moment" --owner=0 --group=0 --numeric-owner -C target/dist -cf - "$name" | gzip -9n >"target/dist/$name.tar.gz"
(cd target/dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "target/dist/$name.tar.gz"
