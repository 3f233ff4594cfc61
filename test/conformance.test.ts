import { beforeAll, describe, expect, it } from 'vitest';
import { type ClientReport, refereeClients } from './conformance/clients.ts';
import { type CrossedReport, refereeCrossed } from './conformance/crossed.ts';
import { readDirectRecord } from './conformance/direct-record.ts';
import { refereeServers, type ServerReport } from './conformance/servers.ts';
import { clientSuites, crossedSuites, serverSuites } from './conformance/suites.ts';
import { clientFaults, crossedFaults, serverFaults } from './conformance/verdict.ts';

/** Generous: the suites have limits of their own. */
const DEADLINE_MS = 900_000;

describe('the conformance suites for servers, through the gateway', () => {
  let reports: ServerReport[];
  beforeAll(async () => {
    reports = await refereeServers(await readDirectRecord());
  }, DEADLINE_MS);

  it.each(serverSuites)(
    '$package $name: nothing ends worse than in the record of the direct run, where all scored scenarios pass',
    (suite) => {
      const found = reports.find((candidate) => candidate.suite === suite);
      expect(found && serverFaults(found)).toEqual([]);
    },
  );
});

describe('the conformance suites of one era, through the gateway to an upstream of the other', () => {
  let reports: CrossedReport[];
  beforeAll(async () => {
    reports = await refereeCrossed();
  }, DEADLINE_MS);

  it.each(crossedSuites)('$package $name: every scenario passes but the exceptions, which do not', (suite) => {
    const found = reports.find((candidate) => candidate.suite === suite);
    expect(found && crossedFaults(found)).toEqual([]);
  });
});

describe('the conformance suites for clients, with the gateway between the referee and the official client', () => {
  let reports: ClientReport[];
  beforeAll(async () => {
    reports = await refereeClients();
  }, DEADLINE_MS);

  it.each(clientSuites)(
    '$package $name: every scenario passes but those of the client’s own authorization',
    (suite) => {
      const found = reports.find((candidate) => candidate.suite === suite);
      expect(found?.scenarios).not.toHaveLength(0);
      expect(found && clientFaults(found)).toEqual([]);
    },
  );
});
