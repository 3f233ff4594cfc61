import type { Progress } from '@modelcontextprotocol/client';
import { toolCallEvent } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findPython, type PythonCapability, startPythonCapability } from './fixtures/python-capability.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

// Code that is really executed, by a code-execution engine in Python.

const SHOWS_ALL = `
import os, sys
print('Grüße 👋')
print('', sys.argv[1:], sep='')
print(os.environ['ORT'])
print('fertig', file=sys.stderr)
`;
const SLOW = "import time\nprint('läuft', flush=True)\ntime.sleep(25)\n";

const python = await findPython();

describe.runIf(python !== undefined)('a code-execution engine in Python', () => {
  let service: PythonCapability;
  let gateway: Gateway;
  beforeAll(async () => {
    [service, gateway] = await Promise.all([startPythonCapability(python), startGateway()]);
    const register = async (kind: string, entry: Readonly<Record<string, unknown>>) =>
      expect(await gateway.api('POST', `/api/v1/${kind}`, entry)).toMatchObject({ status: 201 });
    const engine = { serviceType: 'code-execution-engine', serviceSubType: 'Snake', languageName: 'python' };
    await register('services', { name: 'runner', ...engine, address: service.address });
    const uri = 'code-execution-engine://snake/Python';
    const stored = { configurationURI: 'vault://configuration', secretsURI: 'vault://secrets' };
    const tool = { name: 'run', description: '', uri, toolType: 'any', input_schema: { type: 'object' }, ...stored };
    await register('tools', tool);
  });
  afterAll(() => Promise.all([gateway.close(), service.close()]));

  /** Events of the latest calls, newest first. */
  const latestEvents = async (limit: number) => {
    const toolName = encodeURIComponent('code-execution/snake/Python');
    const { body } = await gateway.api('GET', `/api/v1/tool-calls?toolName=${toolName}&limit=${limit}`);
    return toolCallEvent.array().parse(Object(body).data);
  };

  describe.each(['legacy', 'modern'] as const)('and a %s client', (era) => {
    let sdk: SdkClient;
    beforeAll(async () => {
      sdk = await connect(gateway.url(), era);
    });
    afterAll(() => sdk.close());

    const run = (given: Readonly<Record<string, unknown>>) => sdk.client.callTool({ name: 'run', arguments: given });

    it('executes code with streamed lines', async () => {
      const arrived: Progress[] = [];
      const code = Buffer.from(SHOWS_ALL).toString('base64');
      const given = { code, arguments: ['eins', 2], environment: { ORT: 'Köln 🏙️' }, timeout: 20_000 };
      const { content, isError } = await sdk.client.callTool(
        { name: 'run', arguments: given },
        { onprogress: (progress) => void arrived.push(progress) },
      );
      const lines = ['Grüße 👋', "['arg0=eins', 'arg1=2']", 'Köln 🏙️'];
      expect({ content, isError }).toEqual({ content: lines.map((text) => ({ type: 'text', text })), isError: false });
      const messages = ['RUNNING', ...lines];
      expect(arrived).toEqual(messages.map((message, index) => ({ progress: index + 1, message })));

      const { received, secondsLeft } = await service.next('executing');
      const { message, metadata } = JSON.parse(String(received));
      expect(message).toEqual({
        1: 'code-execution-engine://Snake/python',
        3: SHOWS_ALL,
        4: { arg0: 'eins', arg1: '2' },
        5: 'vault://configuration',
        6: 'vault://secrets',
        7: 20_000,
        8: { ORT: 'Köln 🏙️' },
      });
      expect(metadata).toEqual({ 'x-service-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/) });
      expect(secondsLeft).toBeGreaterThan(20);
      expect(secondsLeft).toBeLessThanOrEqual(25);

      const [completed, started] = await latestEvents(2);
      const call = {
        eventId: started?.eventId,
        transport: 'code',
        serviceId: 'runner',
        serviceAddress: service.address,
      };
      expect(started).toMatchObject({ ...call, eventType: 'STARTED', argumentCount: 2, body: '[CODE]', headers: {} });
      expect(JSON.stringify(started)).not.toMatch(/Grü|eins|Köln|vault/);
      expect(completed).toMatchObject({ ...call, eventType: 'COMPLETED', isError: false, content: lines });
    });

    it('gets the output of code before its failure, and the reason', async () => {
      const code = "print('so weit')\nraise ValueError('größer 🐘')";
      const { content, isError } = await run({ code });
      await service.next('executing');
      expect(isError).toBe(true);
      expect(content).toMatchObject([{ text: 'so weit' }, { text: expect.stringContaining('ValueError: größer 🐘') }]);
      expect(await latestEvents(1)).toMatchObject([{ eventType: 'FAILED', errorCategory: 'EXECUTION_ERROR' }]);
    });

    it('gets an error without code', async () => {
      expect(await run({ code: '' })).toMatchObject({ isError: true, content: [{ text: 'there is no code' }] });
      await service.next('executing');
      expect(await latestEvents(1)).toMatchObject([
        { errorCategory: 'EXECUTION_ERROR', errorMessage: 'there is no code' },
      ]);
    });

    it('gets an error when the engine terminates code at its timeout', async () => {
      const { content, isError } = await run({ code: SLOW, timeout: 100 });
      await service.next('executing');
      expect(isError).toBe(true);
      expect(content).toMatchObject([{ text: 'läuft' }]);
      const errorMessage = 'the execution ended as TIMEOUT with exit code -9';
      expect(await latestEvents(1)).toMatchObject([{ errorCategory: 'EXECUTION_ERROR', errorMessage }]);
    });

    it('cancels code at the engine, which terminates it', async () => {
      const stop = new AbortController();
      const options = {
        signal: stop.signal,
        onprogress: ({ message }: Progress) => message === 'läuft' && stop.abort('enough'),
      };
      const call = sdk.client.callTool({ name: 'run', arguments: { code: SLOW } }, options);
      await expect(call).rejects.toThrow('enough');
      expect(await service.next('stopped')).toMatchObject({ exitCode: -9 });
      await service.next('executing');
      await expect
        .poll(() => latestEvents(1))
        .toMatchObject([
          {
            eventType: 'FAILED',
            errorCategory: 'UNKNOWN',
            errorMessage: expect.stringMatching(/canceled|disconnected/),
          },
        ]);
    });
  });
});
