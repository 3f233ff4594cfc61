import { Client, credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadProtocols } from '../packages/server/src/upstreams/grpc/channels.ts';
import { AGREED_MESSAGES } from '../packages/server/src/upstreams/grpc/fixtures/protocol-messages.ts';
import { callStream, callUnary } from '../packages/server/src/upstreams/grpc/grpc-client.ts';
import { findPython, type PythonCapability, startPythonCapability } from './fixtures/python-capability.ts';

// The messages as Python reads and writes them, compared with the specified numbers.

const AGREED = {
  ...AGREED_MESSAGES,
  '/tool.ToolInvoker/InvokeTool': 'ToolInvokeRequest ToolInvokeReply',
  '/tool.Provisioner/Provision': 'ProvisionRequest ProvisionReply',
  '/resource.ResourceAcquirer/ResourceAcquire': 'ResourceRequest ResourceReply',
  '/codeexecution.CodeExecutor/ExecuteCode': 'CodeExecutionRequest stream CodeExecutionReply',
  '/health.HealthProbe/Probe': 'HealthProbeRequest HealthProbeReply',
  '/health.HealthProbe/GetStatus': 'HealthProbeRequest HealthProbeReply',
};
const SETTINGS = { timeoutMs: 5_000, deadlineMs: 5_000, maxRetries: 0, retryDelayMs: 1 };

const python = await findPython();

describe.runIf(python !== undefined)('a capability service in Python', () => {
  const { toolInvoker, codeExecutor } = loadProtocols();
  let service: PythonCapability;
  let client: Client;
  beforeAll(async () => {
    service = await startPythonCapability(python);
    client = new Client(service.address, credentials.createInsecure());
  });
  afterAll(async () => {
    client.close();
    await service.close();
  });

  it('has the specified messages, numbers and methods', async () => {
    const request = { uri: 'python://protocols' };
    const { content } = await callUnary(client, toolInvoker.InvokeTool, request, { requestId: 'a' }, SETTINGS);
    expect(JSON.parse(content[0] ?? '')).toEqual(AGREED);
  });

  it('has the same enumeration values, and transfers numbers of any size', async () => {
    const sent = [
      { outputType: 0, status: 0 },
      { outputType: 1, status: 1, exitCode: -(2 ** 31), timestamp: -1 },
      { outputType: 2, status: 2, exitCode: 2 ** 31 - 1, timestamp: 2 ** 31 },
      { outputType: 3, status: 3, timestamp: 1_795_348_800_123 },
      { outputType: 3, status: 4, timestamp: Number.MAX_SAFE_INTEGER, isError: true },
      { outputType: 3, status: 5, timestamp: Number.MIN_SAFE_INTEGER, content: ['', 'a\0b', '👩🏽‍🚀'] },
    ];
    const request = { uri: 'code-execution-engine://any/replay', code: JSON.stringify(sent), timeout: 300_000 };
    const replies = callStream(client, codeExecutor.ExecuteCode, request, { requestId: 'a' }, SETTINGS);
    const outputs = ['STDOUT', 'STDERR', 'STATUS', 'COMPLETION', 'COMPLETION', 'COMPLETION'];
    const states = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'];
    const unsetFields = { isError: false, content: [], exitCode: 0, timestamp: 0 };
    expect(await Array.fromAsync(replies)).toEqual(
      sent.map((reply, at) => ({ ...unsetFields, ...reply, outputType: outputs[at], status: states[at] })),
    );
    const { received } = await service.next('executing');
    expect(JSON.parse(String(received)).message[7]).toBe(300_000);
  });
});
