import { describe, expect, it } from 'vitest';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../app/pipeline.fixture.ts';

const { runFilters } = pipelineTests();

/** The numbers of those requests that meet the conditions: a method, a path, and headers. */
async function met(conditions: string, requests: readonly (readonly [string, string, Record<string, string>?])[]) {
  const service = await runFilters(`
- { filter: static_response, status: 201, conditions: ${conditions} }
- { filter: static_response, status: 202 }`);
  const statuses: number[] = [];
  for (const [method, path, headers] of requests) {
    statuses.push((await send(at(service, 'l', path), method, headers)).status);
  }
  return statuses.map((status) => status === 201);
}

describe('a condition', () => {
  it('asks for a path, without its query', async () => {
    const requests = [
      ['GET', '/a'],
      ['GET', '/a?b=c'],
      ['GET', '/a/'],
      ['GET', '/ab'],
      ['GET', '/A'],
    ] as const;
    expect(await met('[{ when: { path: /a } }]', requests)).toEqual([true, true, false, false, false]);
    expect(await met('[{ unless: { path: /a } }]', requests)).toEqual([false, false, true, true, true]);
  });

  it('asks for what a path begins with, letter by letter', async () => {
    const requests = [
      ['GET', '/api'],
      ['GET', '/api/x'],
      ['GET', '/apix'],
      ['GET', '/ap'],
      ['GET', '/x/api'],
    ] as const;
    expect(await met('[{ when: { path_prefix: /api } }]', requests)).toEqual([true, true, true, false, false]);
    expect(await met('[{ unless: { path_prefix: /api/ } }]', requests)).toEqual([true, false, true, true, true]);
  });

  it('asks for one of several methods', async () => {
    const requests = [
      ['GET', '/'],
      ['PUT', '/'],
      ['POST', '/'],
    ] as const;
    expect(await met('[{ when: { methods: [GET, PUT] } }]', requests)).toEqual([true, true, false]);
    expect(await met('[{ unless: { methods: [GET, PUT] } }]', requests)).toEqual([false, false, true]);
  });

  it('asks for headers, each with its value, names in any case', async () => {
    const requests = [
      ['GET', '/', { 'x-a': '1', 'X-B': 'two' }],
      ['GET', '/', { 'x-a': '1', 'x-b': 'Two' }],
      ['GET', '/', { 'x-a': '1' }],
      ['GET', '/'],
    ] as const;
    expect(await met('[{ when: { headers: { X-A: "1", x-b: two } } }]', requests)).toEqual([true, false, false, false]);
    expect(await met('[{ unless: { headers: { X-A: "1" } } }]', requests)).toEqual([false, false, false, true]);
  });

  it('asks for all that stands in it, and a list for all of its conditions', async () => {
    const requests = [
      ['GET', '/a/b'],
      ['PUT', '/a/b'],
      ['GET', '/c'],
      ['GET', '/a/no'],
      ['PUT', '/a/no'],
    ] as const;
    expect(await met('[{ when: { path_prefix: /a, methods: [GET] } }]', requests)).toEqual([
      true,
      false,
      false,
      true,
      false,
    ]);
    expect(await met('[{ unless: { path_prefix: /a, methods: [GET] } }]', requests)).toEqual([
      false,
      true,
      true,
      false,
      true,
    ]);
    expect(await met('[{ when: { path_prefix: /a } }, { unless: { path: /a/no } }]', requests)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(await met('[]', requests.slice(0, 1)).catch((error: Error) => error.message)).toContain('are never reached');
  });

  it('is asked of the path as filters before it have made it', async () => {
    const service = await runFilters(`
- { filter: path_rewrite, strip_prefix: /old }
- { filter: static_response, status: 201, conditions: [{ when: { path: /x } }] }
- { filter: static_response, status: 202 }`);
    expect((await send(at(service, 'l', '/old/x'), 'GET')).status).toBe(201);
    expect((await send(at(service, 'l', '/old/old/x'), 'GET')).status).toBe(202);
  });
});
