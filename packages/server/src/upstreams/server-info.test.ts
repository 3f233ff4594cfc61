import { expect, it } from 'vitest';
import type { KnownCatalog } from '../registry/entries.ts';
import { readServerInfo } from './server-info.ts';

function catalog(identity: unknown, era: 'legacy' | 'modern' = 'legacy'): KnownCatalog {
  return { key: era, era, capabilities: {}, identity: JSON.stringify(identity), cache: {} };
}

it('is unknown before the first discovery', () => {
  expect(readServerInfo([])).toBeUndefined();
});

it('reads the identity of a legacy upstream', () => {
  const identity = {
    protocolVersion: '2025-11-25',
    serverInfo: {
      name: 'crm',
      title: 'CRM',
      version: '1.0',
      description: 'Customers',
      websiteUrl: 'https://crm.example',
    },
    capabilities: {
      tools: { listChanged: true },
      logging: {},
      experimental: { x: {} },
      extensions: { 'io.x/ui': {}, 'io.x/b': {} },
    },
    instructions: 'Ask nicely.',
  };
  expect(readServerInfo([catalog(identity)])).toEqual({
    serverName: 'crm',
    version: '1.0',
    description: 'Customers',
    websiteUrl: 'https://crm.example',
    capabilities: ['tools', 'logging'],
    extensions: ['io.x/ui', 'io.x/b'],
    instructions: 'Ask nicely.',
  });
});

it('reads the identity of a modern upstream from its metadata', () => {
  const identity = {
    supportedVersions: ['2026-07-28'],
    capabilities: { prompts: {} },
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'crm', version: '2' } },
  };
  expect(readServerInfo([catalog(identity, 'modern')])).toEqual({
    serverName: 'crm',
    version: '2',
    capabilities: ['prompts'],
    extensions: [],
  });
});

it('takes the first of several eras', () => {
  const named = (name: string) => catalog({ serverInfo: { name, version: '1' }, capabilities: {} });
  expect(readServerInfo([named('one'), named('two')])?.serverName).toBe('one');
});

it.each([
  {},
  { serverInfo: 'me', capabilities: 7, instructions: [] },
  { serverInfo: { name: 1, version: null }, capabilities: { extensions: [] } },
])('omits what is missing or of another type in %j', (identity) => {
  expect(readServerInfo([catalog(identity)])).toEqual({
    serverName: '',
    version: '',
    capabilities: [],
    extensions: [],
  });
});

it('is empty for an upstream whose response was not an object', () => {
  expect(readServerInfo([catalog(null)])).toBeUndefined();
});
