import { expect, it } from 'vitest';
import type { KnownCatalogue } from '../../registry/entries.ts';
import { serverInfoOf } from './forwards.ts';

function catalogue(identity: unknown, era: 'legacy' | 'modern' = 'legacy'): KnownCatalogue {
  return { key: era, era, capabilities: {}, identity: JSON.stringify(identity), cache: {} };
}

it('is unknown before the first discovery', () => {
  expect(serverInfoOf([])).toBeUndefined();
});

it('tells what a legacy upstream says of itself', () => {
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
  expect(serverInfoOf([catalogue(identity)])).toEqual({
    serverName: 'crm',
    version: '1.0',
    description: 'Customers',
    websiteUrl: 'https://crm.example',
    capabilities: ['tools', 'logging'],
    extensions: ['io.x/ui', 'io.x/b'],
    instructions: 'Ask nicely.',
  });
});

it('finds what a modern upstream says in its metadata', () => {
  const identity = {
    supportedVersions: ['2026-07-28'],
    capabilities: { prompts: {} },
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'crm', version: '2' } },
  };
  expect(serverInfoOf([catalogue(identity, 'modern')])).toEqual({
    serverName: 'crm',
    version: '2',
    capabilities: ['prompts'],
    extensions: [],
  });
});

it('takes the first of several eras', () => {
  const named = (name: string) => catalogue({ serverInfo: { name, version: '1' }, capabilities: {} });
  expect(serverInfoOf([named('one'), named('two')])?.serverName).toBe('one');
});

it.each([
  {},
  { serverInfo: 'me', capabilities: 7, instructions: [] },
  { serverInfo: { name: 1, version: null }, capabilities: { extensions: [] } },
])('leaves out what is missing or of another type in %j', (identity) => {
  expect(serverInfoOf([catalogue(identity)])).toEqual({
    serverName: '',
    version: '',
    capabilities: [],
    extensions: [],
  });
});

it('knows nothing of an upstream whose answer was no object', () => {
  expect(serverInfoOf([catalogue(null)])).toBeUndefined();
});
