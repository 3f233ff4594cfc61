-- What replicas share: records by section and id. Every commit locks the row of `state`, so that revisions are in the order of
-- commits; those of a sequence would not be.
CREATE TABLE sluice.state (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  revision bigint NOT NULL DEFAULT 0,
  -- Changes up to this revision have been removed.
  pruned bigint NOT NULL DEFAULT 0
);
INSERT INTO sluice.state DEFAULT VALUES;

-- The id of a commit is chosen by the replica, which looks it up if the response to COMMIT was lost.
CREATE TABLE sluice.commits (
  revision bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON sluice.commits (committed_at);

-- What each commit changed, for replicas that follow. `json` is null for a removal.
CREATE TABLE sluice.changes (
  revision bigint NOT NULL,
  position integer NOT NULL,
  section text NOT NULL,
  id text NOT NULL,
  json text,
  PRIMARY KEY (revision, position)
);

-- The current state, in the order in which records were added. Ids can be longer than an index permits.
CREATE TABLE sluice.records (
  section text NOT NULL,
  id_hash bytea NOT NULL,
  id text NOT NULL,
  json text NOT NULL,
  added bigint NOT NULL,
  position integer NOT NULL,
  -- When it may be removed; null for never.
  expires timestamptz,
  PRIMARY KEY (section, id_hash)
);
CREATE INDEX ON sluice.records (section, added, position);
CREATE INDEX ON sluice.records (expires) WHERE expires IS NOT NULL;

-- The processes that share the records. One is live until its lease expires, which it renews every second.
CREATE TABLE sluice.replicas (
  id uuid PRIMARY KEY,
  version text NOT NULL,
  -- Where other replicas pass requests on to it, host:port; null if it cannot be reached by them.
  address text,
  started_at timestamptz NOT NULL DEFAULT now(),
  expires timestamptz NOT NULL,
  -- Revision of its state, or a later one.
  applied bigint NOT NULL,
  -- Processors that it has used on average before it last renewed its lease.
  load real NOT NULL DEFAULT 0
);
