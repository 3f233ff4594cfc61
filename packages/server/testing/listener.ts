import { afterAll, beforeAll, expect } from 'vitest';
import type { RawResponse } from '../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from './service.ts';

/** A minimal `tools/list` request. */
export const LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
/** A minimal `ping` request. */
export const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

/**
 * Shared setup for tests of the MCP listener: a service with the tool `known` in `default`, and the empty namespace
 * `finance`. To be called once, at the top of a test file; the service runs during its tests.
 */
export function listenerTests(): () => TestService {
  let service: TestService | undefined;
  let upstream: RawUpstream | undefined;
  beforeAll(async () => {
    service = await startTestService();
    upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('known')) } });
    await service.register('forwards', { name: 'up', address: upstream.url });
    await service.register('namespaces', { name: 'finance' });
  });
  afterAll(async () => {
    await service?.stop();
    await upstream?.close();
  });
  return () => {
    if (!service) throw new Error('the service is not running');
    return service;
  };
}

/** The text of a request. */
export function rpc(method: string, params: unknown = {}, id: unknown = 1): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

/** The JSON-RPC error of a response, with its id. */
export function errorOf(response: RawResponse): { code: number; message: string; data?: unknown; id: unknown } {
  expect(response.headers['content-type']).toBe('application/json');
  const { id, error } = JSON.parse(response.text);
  return { ...error, id };
}
