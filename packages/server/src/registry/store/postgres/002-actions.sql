-- The WebAssembly components of evaluator revisions, by SHA-256: replicas need no shared folder.
CREATE TABLE sluice.actions (
  checksum text PRIMARY KEY,
  component bytea NOT NULL,
  -- When a revision last needed it.
  stored_at timestamptz NOT NULL DEFAULT now()
);
