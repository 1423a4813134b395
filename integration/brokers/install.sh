#!/usr/bin/env bash
# install.sh: what the tests with real brokers need, on Debian or Ubuntu: redis-server, rabbitmq-server, a Java runtime,
# Maven, the jars of Kafka, and the Go tools of the lint step. Run it again as often as you like: what is there is left alone.
# Needs root or sudo only when a Debian package is missing.
set -euo pipefail

kafka_version=4.1.0
gofumpt_version=v0.12.0
staticcheck_version=v0.8.2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rabbitmq=/usr/lib/rabbitmq/bin/rabbitmq-server
libs=${XDG_CACHE_HOME:-$HOME/.cache}/mqferry/kafka-$kafka_version

say() { printf 'install: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# Kafka 4 needs Java 17 or newer.
have_java() {
  have java || return 1
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ]
}

# Debian starts a server when it installs it, unless policy-rc.d says no (101).
policy=/usr/sbin/policy-rc.d
restore_policy() {
  as_root rm -f "$policy"
  if [ -e "$policy.mqferry" ]; then as_root mv "$policy.mqferry" "$policy"; fi
}
deny_service_starts() {
  if [ -e "$policy" ]; then as_root mv "$policy" "$policy.mqferry"; fi
  trap restore_policy EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
}

install_packages() {
  local missing=()
  have redis-server || missing+=(redis-server)
  [ -x "$rabbitmq" ] || missing+=(rabbitmq-server)
  have_java || missing+=(default-jre-headless)
  # Maven only fetches the jars: with the jars there it is not needed.
  [ -d "$libs" ] || have mvn || missing+=(maven)
  if [ ${#missing[@]} = 0 ]; then
    say "redis-server, rabbitmq-server and java are there"
    return
  fi
  have apt-get || { say "no apt-get here: install ${missing[*]} by hand, then run this again"; exit 1; }
  say "installing ${missing[*]}"
  as_root apt-get -q update
  deny_service_starts
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null
  restore_policy
  trap - EXIT
  have_java || { say "java is older than 17, Kafka $kafka_version needs 17 or newer"; exit 1; }
}

# The folder appears under its name only when it is complete.
install_kafka() {
  if [ -d "$libs" ]; then
    say "Kafka $kafka_version is in $libs"
    return
  fi
  say "fetching Kafka $kafka_version into $libs (about a minute)"
  mkdir -p "$(dirname "$libs")"
  local part
  part=$(mktemp -d "$libs.XXXXXX")
  mvn -q -B -f "$here/kafka-pom.xml" -Dkafka.version="$kafka_version" dependency:copy-dependencies -DoutputDirectory="$part" </dev/null
  chmod 755 "$part"
  mv -T "$part" "$libs"
}

install_go_tool() {
  local package=$1 version=$2 bin
  bin=$(go env GOBIN)
  bin=${bin:-$(go env GOPATH)/bin}/$(basename "$package")
  if [ -x "$bin" ] && go version -m "$bin" | grep -q "[[:space:]]$version[[:space:]]"; then
    say "$(basename "$package") $version is there"
    return
  fi
  say "installing $package@$version"
  go install "$package@$version"
}

install_packages
install_kafka
if have go; then
  install_go_tool mvdan.cc/gofumpt "$gofumpt_version"
  install_go_tool honnef.co/go/tools/cmd/staticcheck "$staticcheck_version"
else
  say "no go here: gofumpt and staticcheck are left out"
fi
say "done"
