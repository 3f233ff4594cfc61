import type { IdentitySettings } from '@sluice/contract';
import { createRequestParser, type RequestHead } from '../packages/server/src/http/server/request-parser.ts';
import { Identity } from '../packages/server/src/identity/identity.ts';
import {
  createSigner,
  identitySettings,
  keySet,
  type Signer,
  sign,
  verifySignature,
} from '../packages/server/src/identity/signed-tokens.fixture.ts';
import type { Bench } from './bench.ts';
import { costSpread, formatRange, tenths } from './figures.ts';
import { rotate } from './rounds.ts';
import type { Report, Row } from './tables.ts';

const ISSUER = 'https://id.example.com/realms/agents';
const PUBLIC_URL = 'https://agents.example.com';
const NAMESPACE = 'finance';
const ALGORITHMS = ['RS256', 'ES256', 'EdDSA'] as const;

/** Limits in µs: a verified token beside the headers of a proxy, and a new one beside what the library takes for its signature. */
const verifiedBound = { limit: 1 };
const newBound = { limit: 25 };

const HEADS = 20_000;
const NEW_TOKENS = 1_000;
const ROUNDS = 20;
const WARM_UP_ROUNDS = 15;

/** Measures what it costs to know who calls: in this process, since two gateways differ by more than that. */
export async function measureAccess({ log }: Bench): Promise<Report> {
  const signers = await Promise.all(ALGORITHMS.map((algorithm) => createSigner(algorithm, algorithm)));
  const verified: Row[] = [];
  for (const callers of [1, 64]) verified.push(await verifiedRow(signers, callers, log));
  const created: Row[] = [];
  for (const signer of signers) created.push(await newRow(signer, log));
  return {
    block: 'access',
    measured: `${ROUNDS} rounds of ${HEADS} heads or ${NEW_TOKENS} tokens`,
    tables: [
      { head: ['CPU µs per head', 'headers of a proxy', 'token', 'token - headers'], rows: verified },
      { head: ['CPU µs per new token', 'verification', 'all', 'all - verification'], rows: created },
    ],
  };
}

/** Settings that accept the tokens of a signer. */
function settingsFor(signer: Signer): IdentitySettings {
  const corp = { name: 'corp', issuer: ISSUER, jwks_url: keySet(signer), groups: ['groups', 'realm_access.roles'] };
  return identitySettings({ tokens: [corp] });
}

/** A token of about 1 kB, as identity providers make them. */
function tokenOf(signer: Signer, caller: number): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  return sign(signer, {
    iss: ISSUER,
    sub: `3f1c9a52-7a0e-4a9b-9f0f-${String(caller).padStart(12, '0')}`,
    aud: [`${PUBLIC_URL}/${NAMESPACE}/mcp`, 'account'],
    iat: now,
    exp: now + 3_600,
    typ: 'Bearer',
    azp: 'agent',
    sid: '9b1f0a8e-61a5-4cf5-9a7e-3c1d2f9f2d10',
    realm_access: { roles: ['default-roles', 'offline_access', 'platform'] },
    scope: 'openid profile email',
    email_verified: true,
    name: 'Ann Example',
    preferred_username: `ann-${caller}`,
    email: `ann-${caller}@example.com`,
  });
}

/** Heads of the same size with the same token, which counts as the credential only where there is an identity. */
async function verifiedRow([signer]: readonly Signer[], callers: number, log: (line: string) => void): Promise<Row> {
  if (!signer) throw new Error('no key');
  const tokens = await Promise.all(Array.from({ length: callers }, (_, caller) => tokenOf(signer, caller)));
  const heads = tokens.map((token, caller) =>
    Buffer.from(
      `POST /${NAMESPACE}/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-User: ann-${caller}\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n`,
    ),
  );
  const byHeaders = authenticator(new Identity(undefined), heads);
  const byToken = authenticator(new Identity(settingsFor(signer), { publicUrl: PUBLIC_URL }), heads);
  await Promise.all(heads.map((_head, at) => byToken(at)));
  const lanes = [byHeaders, byToken].map((authenticate) => async () => {
    for (let at = 0; at < HEADS; at++) authenticate(at);
    return HEADS;
  });
  const title = callers === 1 ? 'one caller' : `${callers} callers on one connection`;
  return differenceRow(title, await measure(title, lanes, log), verifiedBound);
}

/** Returns a function that parses one of the heads on a connection, and authenticates it. */
function authenticator(by: Identity, heads: readonly Buffer[]) {
  const { authenticate, credentialHeaders } = by.forListener('mcp', () => NAMESPACE);
  let received: RequestHead | undefined;
  const onHead = (head: RequestHead) => {
    received = head;
  };
  const parser = createRequestParser({ onHead, onBody: () => undefined }, { credentialHeaders });
  return (at: number) => {
    const bytes = heads[at % heads.length] ?? Buffer.alloc(0);
    parser.execute(bytes, 0, bytes.length);
    parser.reset();
    if (!received) throw new Error('no head');
    const { url: target, headers, credentials } = received;
    const found = authenticate({ target, headers, credentials, peer: '127.0.0.1', address: '127.0.0.1' });
    if (!(found instanceof Promise) && found.kind === 'rejected') throw new Error(found.cause ?? found.reason);
    return found;
  };
}

async function newRow(signer: Signer, log: (line: string) => void): Promise<Row> {
  const tokens = await Promise.all(Array.from({ length: NEW_TOKENS }, (_, caller) => tokenOf(signer, caller)));
  const verify = () => inTurns(tokens, (token) => verifySignature(signer, token));
  const settings = settingsFor(signer);
  const all = () => {
    const { authenticate } = new Identity(settings, { publicUrl: PUBLIC_URL }).forListener('mcp', () => NAMESPACE);
    return inTurns(tokens, async (token) => {
      const credentials = new Map([['authorization', [`Bearer ${token}`]]]);
      const found = await authenticate({ target: '', headers: {}, credentials, address: undefined });
      if (found.kind === 'rejected') throw new Error(found.cause ?? found.reason);
    });
  };
  return differenceRow(signer.algorithm, await measure(signer.algorithm, [verify, all], log), newBound);
}

/** Runs the job for all tokens, two at a time. Returns their number. */
async function inTurns(tokens: readonly string[], job: (token: string) => Promise<unknown>): Promise<number> {
  const left = tokens.values();
  const work = async () => {
    for (const token of left) await job(token);
  };
  await Promise.all([work(), work()]);
  return tokens.length;
}

/** Returns the CPU time in µs of this thread, without those that verify signatures, for each operation of each lane in each round. */
async function measure(
  title: string,
  lanes: readonly (() => Promise<number>)[],
  log: (line: string) => void,
): Promise<readonly number[][]> {
  const samples: number[][] = lanes.map(() => []);
  for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
    for (const [at, run] of rotate([...lanes.entries()], Math.max(round, 0))) {
      const before = process.threadCpuUsage();
      const count = await run();
      const { user, system } = process.threadCpuUsage(before);
      // The first rounds are a warm-up.
      if (round >= 0) samples[at]?.push((user + system) / count);
    }
  }
  log(`${title}: ${samples.map((costs) => tenths(costSpread(costs).lowerQuartile)).join(' and ')} µs of CPU`);
  return samples;
}

function differenceRow(title: string, samples: readonly number[][], bound: { readonly limit: number }): Row {
  const [first, last] = samples.map((costs) => costSpread(costs));
  if (!first || !last) throw new Error('no samples');
  const cells = [first, last].map((costs) => formatRange(costs, tenths));
  return { title, cells, figure: last.lowerQuartile - first.lowerQuartile, format: tenths, bound };
}
