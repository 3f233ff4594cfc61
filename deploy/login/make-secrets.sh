#!/bin/sh
# Makes secrets.env, which must not be committed: the secrets of the proxies, the identity provider and its users.
set -eu
cd "$(dirname "$0")"
file="${1:-secrets.env}"
if [ -e "$file" ]; then
  echo "$file exists: remove it to make new secrets" >&2
  exit 1
fi
umask 077
client_secret=$(openssl rand -hex 24)
cat >"$file" <<END
OAUTH2_PROXY_CLIENT_SECRET=$client_secret
OAUTH2_PROXY_COOKIE_SECRET=$(openssl rand -hex 16)
SLUICE_CLIENT_SECRET=$client_secret
SLUICE_AUTOMATION_SECRET=$(openssl rand -hex 24)
SLUICE_ALICE_PASSWORD=$(openssl rand -hex 12)
SLUICE_BOB_PASSWORD=$(openssl rand -hex 12)
KC_BOOTSTRAP_ADMIN_PASSWORD=$(openssl rand -hex 12)
END
echo "made $file: alice may administer, bob may use tools"
