import { LIST_END } from '../../../test/fixtures/raw-upstream/texts.ts';

/** Scripts of an upstream that declares these capabilities, given as JSON text, in both eras. */
export function capabilityScripts(capabilities: string): Readonly<Record<string, string>> {
  const server = '"serverInfo":{"name":"declaring","version":"1"}';
  return {
    initialize: `{"protocolVersion":"2025-11-25","capabilities":${capabilities},${server}}`,
    'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":${capabilities},${server},${LIST_END}`,
  };
}
