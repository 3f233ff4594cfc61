import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { knownDifference } from './campaign/sdks/differences.ts';
import { runDirectly, runThroughSluice } from './campaign/sdks/pair-run.ts';
import { SDKS, type Sdk, type SdkPrograms } from './campaign/sdks/programs.ts';
import { compareTranscripts } from './campaign/sdks/transcript.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';

// The SDKs that npm installs; `npm run campaign -- sdks` runs those of the other languages, too.

const TYPESCRIPT = SDKS.filter(({ name }) => name.startsWith('typescript-'));
const PAIRS = TYPESCRIPT.flatMap((client) => TYPESCRIPT.map((server) => [client, server] as const));

// Five processes start per pair.
describe('an official client with an official server', { timeout: 240_000 }, () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway();
  });
  afterAll(() => gateway.close());

  for (const pair of PAIRS) {
    const names = pair.map(({ name }) => name);
    // The two pairs of different SDKs have the clients and servers of both.
    const tags = names[0] === names[1] ? ['slow'] : [];
    it.concurrent(`reports the same directly and through Sluice: ${names.join(', ')}`, { tags }, async () => {
      const [client, server] = await Promise.all(pair.map(programs));
      if (client === undefined || server === undefined) throw new Error('no programs');
      const [direct, through] = await Promise.all([
        runDirectly(client.client, server.server),
        runThroughSluice(client.client, server.server, gateway),
      ]);
      expect([...direct.transcript.keys()]).toContain('close');
      const differences = compareTranscripts(direct.transcript, through.transcript);
      expect(differences.filter((difference) => knownDifference(difference) === undefined)).toEqual([]);
    });
  }
});

async function programs(sdk: Sdk): Promise<SdkPrograms> {
  const built = await sdk.build();
  if (typeof built === 'string') throw new Error(`${sdk.title} needs ${built}`);
  return built;
}
