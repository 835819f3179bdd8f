# shellcheck shell=bash
# common.sh: what every script here shares. Sourced, never run.
#
# Sets root (the repository), and gives: say, die, as_postgres, pg_config_find, have.

# shellcheck disable=SC2034
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8

# say WHAT...: progress, on stderr, so that stdout holds results only.
say()
{
	printf '%s\n' "$*" >&2
}

# die MESSAGE [HINT]...
die()
{
	local name=${0##*/} line
	printf '%s: %s\n' "$name" "$1" >&2
	shift
	for line in "$@"; do
		printf '    %s\n' "$line" >&2
	done
	exit 1
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# The server programs refuse to run as root: they get the postgres user, anybody else runs them as
# himself. The environment is emptied, since PG* variables of the caller must not steer our server.
as_postgres()
{
	if [ "$(id -u)" -eq 0 ]; then
		id postgres >/dev/null 2>&1 ||
			die "there is no user \"postgres\"" "scripts/deps installs PostgreSQL, which makes it."
		setpriv --reuid=postgres --regid=postgres --init-groups --reset-env \
			env LC_ALL=C.UTF-8 PATH="$PATH" "$@"
	else
		env -u PGDATA -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGOPTIONS -u PGSERVICE "$@"
	fi
}

# Whether the server's user can read this path (a checkout under /root usually says no).
postgres_can_read()
{
	(cd / && as_postgres test -r "$1") 2>/dev/null
}

# Prints the pg_config of the server to build for: $PG_CONFIG, else the newest installed with headers.
pg_config_find()
{
	local candidate
	if [ -n "${PG_CONFIG:-}" ]; then
		printf '%s\n' "$PG_CONFIG"
		return 0
	fi
	for candidate in $(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV) pg_config; do
		have "$candidate" || continue
		if [ -e "$("$candidate" --includedir-server 2>/dev/null)/postgres.h" ]; then
			printf '%s\n' "$candidate"
			return 0
		fi
	done
	return 1
}

pg_config_or_die()
{
	pg_config_find || die "no PostgreSQL with server headers found" \
		"Run scripts/deps, or set PG_CONFIG to the pg_config of your server."
}

# ---- a module that is staged, not installed ------------------------------------------------------

# Builds what is stale and installs it under a folder; needs $pg_config.
# shellcheck disable=SC2154
stage_install()
{
	make -s -C "$root" PG_CONFIG="$pg_config" >&2
	make -s -C "$root" PG_CONFIG="$pg_config" install DESTDIR="$1" >&2
	chmod -R a+rX "$1"
}

quoted()
{
	printf "'%s'" "${1//\'/\'\'}"
}

# How this server finds a module that is not installed: Debian's setting, or PostgreSQL 18's.
# Prints settings; needs $pg_config.
stage_settings()
{
	local stage=$1 pkglibdir sharedir
	pkglibdir=$("$pg_config" --pkglibdir)
	sharedir=$("$pg_config" --sharedir)
	echo "dynamic_library_path = $(quoted "$stage$pkglibdir:\$libdir")"
	if grep -q '^#extension_destdir' "$sharedir/postgresql.conf.sample"; then
		echo "extension_destdir = $(quoted "$stage")"
	elif grep -q '^#extension_control_path' "$sharedir/postgresql.conf.sample"; then
		echo "extension_control_path = $(quoted "$stage$sharedir:\$system")"
	else
		die "this PostgreSQL cannot load an extension that is not installed" "Run make install as root, then this again."
	fi
}

# stage_model FILE FOLDER: into a model directory, by a hard link where possible, a copy where not.
stage_model()
{
	local file base folder=$2
	[ -e "$1" ] ||
		die "there is no model file \"$1\"" "scripts/model fetches the small one of the demo."
	file=$(readlink -f "$1")
	base=$(basename "$1")
	case $base in *[,=\'\\]*) die "a model file name must be free of commas, quotes and =: $base" ;; esac
	[ ! "$file" -ef "$folder/$base" ] || return 0
	rm -rf "${folder:?}/$base"
	if [ -f "$file" ] && [ -n "$(find "$file" -perm -o=r)" ] && ln "$file" "$folder/$base" 2>/dev/null; then
		return 0
	fi
	cp -rL --reflink=auto "$file" "$folder/$base"
	chmod -R a+rX "$folder/$base"
}
