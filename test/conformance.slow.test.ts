import { beforeAll, describe, expect, it } from 'vitest';
import { type ClientReport, runClientSuites } from './conformance/clients.ts';
import { type DirectRecord, readDirectRecord, recordFaults } from './conformance/direct-record.ts';
import { runTranslationSuites, type TranslationReport } from './conformance/era-translation.ts';
import { runServerSuites, type ServerReport } from './conformance/servers.ts';
import { clientSuites, serverSuites, translationSuites } from './conformance/suites.ts';
import { clientFaults, serverFaults, translationFaults } from './conformance/verdict.ts';

/** Generous: the suites have their own timeouts. */
const TIMEOUT_MS = 900_000;

describe('the conformance suites for servers, directly and through the gateway', () => {
  let reports: ServerReport[];
  let record: DirectRecord;
  beforeAll(async () => {
    record = await readDirectRecord();
    reports = await runServerSuites();
  }, TIMEOUT_MS);

  it.each(serverSuites)(
    '$package $name: all scored scenarios pass directly, without regressions through the gateway',
    (suite) => {
      const found = reports.find((candidate) => candidate.suite === suite);
      expect(found && serverFaults(found)).toEqual([]);
    },
  );

  it.each(serverSuites)('$package $name: the committed record of the direct run is up to date', (suite) => {
    const found = reports.find((candidate) => candidate.suite === suite);
    expect(found && recordFaults(record, found)).toEqual([]);
  });
});

describe('the conformance suites of one era, through the gateway to an upstream of the other', () => {
  let reports: TranslationReport[];
  beforeAll(async () => {
    reports = await runTranslationSuites();
  }, TIMEOUT_MS);

  it.each(translationSuites)('$package $name: every scenario but the exceptions passes', (suite) => {
    const found = reports.find((candidate) => candidate.suite === suite);
    expect(found && translationFaults(found)).toEqual([]);
  });
});

describe('the conformance suites for clients, with the gateway between the suite and the official client', () => {
  let reports: ClientReport[];
  beforeAll(async () => {
    reports = await runClientSuites();
  }, TIMEOUT_MS);

  it.each(clientSuites)('$package $name: every scenario but those of client authorization passes', (suite) => {
    const found = reports.find((candidate) => candidate.suite === suite);
    expect(found?.scenarios).not.toHaveLength(0);
    expect(found && clientFaults(found)).toEqual([]);
  });
});
