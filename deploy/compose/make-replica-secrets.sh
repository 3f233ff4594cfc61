#!/bin/sh
# Makes the secrets of compose.replicas.yaml in .env, which must not be committed, or adds them to those that are there.
set -eu
cd "$(dirname "$0")"
file="${1:-.env}"
if grep -qs '^SERVICE_SESSION_KEY=' "$file"; then
  echo "$file has them: remove SERVICE_SESSION_KEY and SLUICE_POSTGRES_PASSWORD to make new ones" >&2
  exit 1
fi
umask 077
cat >>"$file" <<END
SERVICE_SESSION_KEY=$(openssl rand -hex 32)
SLUICE_POSTGRES_PASSWORD=$(openssl rand -hex 24)
END
echo "made $file"
