import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { worstResults } from './conformance/compare.ts';
import { readDirectRecord } from './conformance/direct-record.ts';
import { runTranslationSuites, type TranslationReport } from './conformance/era-translation.ts';
import type { Scenario } from './conformance/scenario.ts';
import { runServerSuites, type ServerReport, type TestedGateway } from './conformance/servers.ts';
import { serverSuites, translationSuites } from './conformance/suites.ts';
import { serverFaults, translationFaults } from './conformance/verdict.ts';
import { startReplicas } from './fixtures/replicas.ts';

// What a client finds through replicas is what it finds through one process (docs/replicas.md).

const TIMEOUT_MS = 900_000;

let postgres: TestPostgres;

beforeAll(async () => {
  postgres = await startPostgres();
});

afterAll(() => postgres[Symbol.asyncDispose]());

/** Three replicas on a new database, behind a balancer that sends each request to the next one. */
async function startBalanced(): Promise<TestedGateway> {
  const replicas = await startReplicas(await postgres.createDatabase(), {
    env: { SERVICE_PEER_LISTEN: '127.0.0.1:0' },
  });
  const [replica] = replicas.services;
  return {
    url: (namespace = 'default') => `${replicas.mcp.url}/${namespace}/mcp`,
    forward: async (name, address, namespace) => replica?.register('forwards', { name, address, namespace }),
    forwards: async () => (await replica?.manage('GET', '/forwards'))?.data,
    close: async () => {
      await replicas[Symbol.asyncDispose]();
    },
  };
}

/** The worst result of each check, by scenario. */
function statusesOf(scenarios: readonly (Scenario | undefined)[]): Map<string, object> {
  return new Map(
    scenarios.map((scenario) => [
      scenario?.name ?? 'missing',
      [...worstResults(scenario?.checks ?? [])].map(([check, { status }]) => `${check}: ${status}`).sort(),
    ]),
  );
}

describe('the conformance suites for servers', () => {
  let replicas: ServerReport[];
  let alone: ServerReport[];
  beforeAll(async () => {
    const record = await readDirectRecord();
    replicas = await runServerSuites(record, startBalanced);
    alone = await runServerSuites(record);
  }, TIMEOUT_MS);

  test.each(serverSuites)('$package $name: find the same through replicas as through one process', (suite) => {
    const [found, expected] = [replicas, alone].map((reports) => reports.find((report) => report.suite === suite));
    expect(found && serverFaults(found)).toEqual([]);
    expect(statusesOf(found?.pairs.map(({ through }) => through) ?? [])).toEqual(
      statusesOf(expected?.pairs.map(({ through }) => through) ?? []),
    );
  });
});

describe('the conformance suites of one era with an upstream of the other', () => {
  let replicas: TranslationReport[];
  let alone: TranslationReport[];
  beforeAll(async () => {
    replicas = await runTranslationSuites(startBalanced);
    alone = await runTranslationSuites();
  }, TIMEOUT_MS);

  test.each(translationSuites)('$package $name: find the same through replicas as through one process', (suite) => {
    const [found, expected] = [replicas, alone].map((reports) => reports.find((report) => report.suite === suite));
    expect(found && translationFaults(found)).toEqual([]);
    expect(statusesOf(found?.scenarios ?? [])).toEqual(statusesOf(expected?.scenarios ?? []));
  });
});
