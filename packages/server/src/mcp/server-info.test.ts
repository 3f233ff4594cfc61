import { describe, expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Forward, type Namespace, parseNamespace } from '../registry/entries.ts';
import { emptyNamespace, Snapshot } from '../registry/snapshot.ts';
import type { ClientProfile } from './client-profile.ts';
import { discoverResult, initializeResult, negotiate } from './server-info.ts';

/** Capabilities that every namespace has. */
const ALWAYS = { tools: { listChanged: true }, resources: { listChanged: true }, prompts: { listChanged: true } };
const US = { name: 'sluice', title: 'Sluice', version: '1.2.3' };

function forward(name: string, identities: readonly string[], namespace: Namespace = DEFAULT_NAMESPACE): Forward {
  const catalogs = identities.map((identity, i) => ({
    key: String(i),
    era: 'legacy' as const,
    capabilities: {},
    identity,
    cache: {},
  }));
  return { name, address: 'http://x/mcp', namespace, labels: {}, prefix: '', registrationId: 1, catalogs };
}

function snapshotOf(...forwards: readonly Forward[]): Snapshot {
  const state = emptyNamespace(DEFAULT_NAMESPACE);
  return new Snapshot(new Map([[state.name, state]]), new Map(forwards.map((entry) => [entry.name, entry])), 1);
}

/** A client that sees the first catalog of each forward. */
function seeing(forwards: readonly Forward[]): Pick<ClientProfile, 'view'> {
  const choose = (name: string) => forwards.find((one) => one.name === name)?.catalogs[0];
  return { view: { key: '', choose, item: () => '', wrap: () => '' } };
}

function initialized(...forwards: readonly Forward[]): { instructions?: string } {
  const namespace = emptyNamespace(DEFAULT_NAMESPACE);
  return JSON.parse(
    initializeResult(snapshotOf(...forwards), namespace, '2025-06-18', JSON.stringify(US), seeing(forwards)),
  );
}

function discovered(...forwards: readonly Forward[]): { instructions?: string } {
  const namespace = emptyNamespace(DEFAULT_NAMESPACE);
  return JSON.parse(discoverResult(snapshotOf(...forwards), namespace, JSON.stringify(US), seeing(forwards)));
}

describe('the protocol version', () => {
  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'is %s for a client that requests it',
    (version) => {
      expect(negotiate(version)).toBe(version);
    },
  );

  it.each(['2026-07-28', '2025-11-26', '', undefined, 20251125, null])(
    'is the latest legacy one for %s',
    (requested) => {
      expect(negotiate(requested)).toBe('2025-11-25');
    },
  );
});

describe('server info', () => {
  it('contains the version, the identity of the service and the standard capabilities', () => {
    expect(initialized()).toEqual({
      protocolVersion: '2025-06-18',
      capabilities: ALWAYS,
      serverInfo: US,
    });
    expect(discovered()).toEqual({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: ALWAYS,
      ttlMs: 0,
      cacheScope: 'public',
      _meta: { 'io.modelcontextprotocol/serverInfo': US },
    });
  });

  it('joins the instructions of the namespace’s upstreams, each once', () => {
    const elsewhere = parseNamespace('elsewhere');
    if (elsewhere === undefined) throw new Error('no namespace');
    const forwards = [
      forward('a', ['{"instructions":"First \\"a\\"."}', '{"instructions":"First in the other era."}']),
      forward('b', ['{}', '{"instructions":"Then b."}']),
      forward('c', ['{"instructions":""}']),
      forward('d', ['{"instructions":7}', '{"instructions":null}']),
      forward('e', []),
      forward('f', ['{"instructions":"Not here."}'], elsewhere),
    ];
    expect(initialized(...forwards).instructions).toBe('First "a".\n\nThen b.');
    expect(discovered(...forwards).instructions).toBe('First "a".\n\nThen b.');
  });
});
