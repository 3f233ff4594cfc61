import { describe, expect, it } from 'vitest';
import { Draft } from '../../registry/draft.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import { type Services, Snapshot } from '../../registry/snapshot.ts';
import { runSteps } from '../../registry/steps.ts';
import { entryAt } from './service-entry.fixture.ts';
import { findCodeService, findResourceService, findToolService } from './services.ts';

/** Registered services with these names and types, in this order, with distinct ports. */
function registered(...entries: readonly [string, ServiceEntry['serviceType'], Partial<ServiceEntry>?][]): Services {
  const draft = new Draft(Snapshot.empty());
  entries.forEach(([name, serviceType, more], index) => {
    draft.putService(entryAt(index + 1, { name, serviceType, registrationId: index, ...more }));
  });
  return runSteps(draft.finishInSteps()).snapshot.services;
}

describe('the service of a tool', () => {
  it.each([
    ['a tool invoker of that name', registered(['x', 'tool-invoker'], ['t', 'tool-invoker']), 2],
    ['a service of several capabilities', registered(['t', 'multi-capability']), 1],
    [
      'the first registered of these',
      registered(['t', 'multi-capability'], ['t', 'tool-invoker', { host: '127.0.0.2' }]),
      1,
    ],
    ['a tool invoker before an engine', registered(['t', 'code-execution-engine'], ['t', 'tool-invoker']), 2],
    ['otherwise an engine of that name', registered(['t', 'resource-provider'], ['t', 'code-execution-engine']), 2],
    ['no provider of resources', registered(['t', 'resource-provider']), undefined],
    ['none of another name', registered(['T', 'tool-invoker']), undefined],
  ])('is %s', (_what, services, port) => {
    expect(findToolService(services, 't')?.port).toBe(port);
  });
});

describe('the service of a resource', () => {
  it.each([
    ['a provider of that name', registered(['t', 'tool-invoker'], ['t', 'resource-provider']), 2],
    ['a service of several capabilities', registered(['t', 'multi-capability'], ['t', 'resource-provider']), 1],
    ['no other service', registered(['t', 'tool-invoker'], ['t', 'code-execution-engine']), undefined],
  ])('is %s', (_what, services, port) => {
    expect(findResourceService(services, 't')?.port).toBe(port);
  });
});

describe('the service of code', () => {
  const engines = registered(
    ['a', 'tool-invoker', { serviceSubType: 'jupyter', languageName: 'python' }],
    ['b', 'code-execution-engine', { serviceSubType: 'jupyter', languageName: 'bash' }],
    ['c', 'code-execution-engine', { serviceSubType: 'Jupyter', languageName: 'Python' }],
    ['d', 'code-execution-engine', { serviceSubType: 'jupyter', languageName: 'python' }],
    ['e', 'code-execution-engine', {}],
  );
  it.each([
    ['jupyter', 'PYTHON', 3],
    ['JUPYTER', 'bash', 2],
    ['jupyter', 'ruby', undefined],
    ['other', 'python', undefined],
  ])('of engine %s and language %s is the first engine that has both, whatever the case', (engine, language, port) => {
    expect(findCodeService(engines, engine, language)?.port).toBe(port);
  });
});
