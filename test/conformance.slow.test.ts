import { beforeAll, describe, expect, it } from 'vitest';
import { type DirectRecord, readDirectRecord, recordFaults } from './conformance/direct-record.ts';
import { runServerSuites, type ServerReport } from './conformance/servers.ts';
import { serverSuites } from './conformance/suites.ts';
import { serverFaults } from './conformance/verdict.ts';

describe('the conformance suites for servers, directly and through the gateway', () => {
  let reports: ServerReport[];
  let record: DirectRecord;
  beforeAll(async () => {
    record = await readDirectRecord();
    reports = await runServerSuites();
  }, 900_000);

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
