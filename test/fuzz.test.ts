import { expect, it, onTestFinished } from 'vitest';
import { DEFAULT_SEED, testSeed } from './fixtures/seed.ts';
import { expectation } from './fuzz/expectation.ts';
import { FuzzRun } from './fuzz/fuzz-run.ts';

/** Enough for every operation and every status; the campaign sends many times as many. */
const ENOUGH_REQUESTS = 3_600;
/** Enough for most of them. */
const FEW_REQUESTS = 150;

/** Sends random requests; fails if a response does not match /openapi.json, or the service failed. */
async function fuzz(requests: number) {
  const seed = testSeed();
  const run = await FuzzRun.start();
  onTestFinished(() => run.close());
  const { sent, responses, findings } = await run.fuzz(seed, requests, 2);
  const failures = [...findings, ...(await run.end())];
  // Keeps the lines of an error readable.
  if (failures.length > 0) throw new Error(`SEED=${seed}\n\n${failures.join('\n\n')}`);
  expect(sent).toBeGreaterThan(requests);
  return responses;
}

it('responses to random requests match /openapi.json, and the service does not fail', async () => {
  const responses = await fuzz(FEW_REQUESTS);
  expect(responses.size).toBeGreaterThan(20);
}, 120_000);

it('responses of every operation match /openapi.json, and the service does not fail', {
  tags: ['slow'],
  timeout: 240_000,
}, async () => {
  const responses = await fuzz(ENOUGH_REQUESTS);
  const seen = new Set([...responses.values()].flatMap((statuses) => [...statuses.keys()]));
  // There is no legacy backend; whether there is a request for it depends on the seed.
  seen.delete(503);
  expect([...seen].sort()).toEqual([200, 201, 204, 400, 403, 404, 405, 409, 413, 422, 431, 502]);
  // Every operation has succeeded, except those with inputs that few random requests have: the number of a revision, a
  // reachable service or server, an evaluator that can be evaluated, an issuer at which people sign in, an
  // identity under which the sender may do the same, only names of registered entries, the upstream of the inference
  // listener, the id of a task, one of two members that exclude each other, and a whole selection of a time series.
  const selections = ['enableTools', 'enableResources', 'enablePrompts'];
  const rare: readonly string[] = [
    '-',
    'activateEvaluatorRevision',
    'replaceIdentity',
    'getIdentityRevision',
    'activateIdentityRevision',
    'signIn',
    'completeSignIn',
    'endSession',
    'provisionService',
    'configureInference',
    'dryRunEvaluator',
    'getTask',
    'cancelTask',
    'testForward',
    'refreshForward',
    'getTimeSeries',
    ...selections,
  ];
  const failed = [...responses].filter(
    ([id, statuses]) => !rare.includes(id) && !statuses.has(200) && !statuses.has(201),
  );
  // With other seeds, random evaluators or revisions may all be invalid.
  if (testSeed() === DEFAULT_SEED) expect(failed).toEqual([]);
});

it('a path of the legacy backend that is not percent-encoded is expected to be unavailable', () => {
  const request = {
    method: 'GET',
    target: '/api/v1/management/statistics/%',
    headers: {},
    body: undefined,
    ambiguous: false,
  };
  expect([...expectation(request, new Map(), undefined, { kind: 'none', reason: '' }).statuses]).toContain(503);
});
