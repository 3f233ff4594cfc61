import { describe, expect, it } from 'vitest';
import type { Forward } from '../registry/entries.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from '../registry/names.ts';
import { emptyNamespace, Snapshot } from '../registry/snapshot.ts';
import { discoverResult, initializeResult, negotiate } from './identity.ts';

const US = { name: 'sluice', title: 'Sluice', version: '1.2.3' };

function forward(name: string, identities: readonly string[], namespace: Namespace = DEFAULT_NAMESPACE): Forward {
  const catalogues = identities.map((identity, i) => ({
    key: String(i),
    era: 'legacy' as const,
    capabilities: {},
    identity,
    cache: {},
  }));
  return { name, address: 'http://x/mcp', namespace, labels: {}, prefix: '', source: 1, catalogues };
}

function snapshotOf(...forwards: readonly Forward[]): Snapshot {
  const state = emptyNamespace(DEFAULT_NAMESPACE);
  return new Snapshot(new Map([[state.name, state]]), new Map(forwards.map((entry) => [entry.name, entry])), 1);
}

function initialized(...forwards: readonly Forward[]): { instructions?: string } {
  return JSON.parse(initializeResult(snapshotOf(...forwards), emptyNamespace(DEFAULT_NAMESPACE), '2025-06-18', US));
}

describe('the version that is spoken', () => {
  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'is %s with a client that asks for it',
    (version) => {
      expect(negotiate(version)).toBe(version);
    },
  );

  it.each(['2026-07-28', '2025-11-26', '', undefined, 20251125, null])('is the latest legacy one for %s', (asked) => {
    expect(negotiate(asked)).toBe('2025-11-25');
  });
});

describe('what clients are told', () => {
  it('is the version, who we are, and what is always offered', () => {
    expect(initialized()).toEqual({
      protocolVersion: '2025-06-18',
      capabilities: { tools: {}, resources: {}, prompts: {} },
      serverInfo: US,
    });
    expect(JSON.parse(discoverResult(snapshotOf(), emptyNamespace(DEFAULT_NAMESPACE), US))).toEqual({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, resources: {}, prompts: {} },
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
    const discovered = JSON.parse(discoverResult(snapshotOf(...forwards), emptyNamespace(DEFAULT_NAMESPACE), US));
    expect(discovered.instructions).toBe('First "a".\n\nThen b.');
  });
});
