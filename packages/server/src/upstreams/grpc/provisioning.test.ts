import { Client, credentials } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { startCapabilityService, unaryHandler } from '../../../testing/capability-service.ts';
import { loadProtocols } from './channels.ts';
import type { ProvisionReply } from './generated/tool/ProvisionReply.ts';
import type { ProvisionRequest__Output } from './generated/tool/ProvisionRequest.ts';
import { callStream, callUnary } from './grpc-client.ts';
import { provisioner } from './provisioning.ts';
import { entryAt } from './service-entry.fixture.ts';

/** Provisions with a service that answers like this; returns its requests and the result. */
async function provisioned(input: { name: string; text: string }, reply: ProvisionReply = {}) {
  const requests: ProvisionRequest__Output[] = [];
  const service = await startCapabilityService((server, { provisioner }) => {
    const Provision = unaryHandler((request: ProvisionRequest__Output): ProvisionReply => {
      requests.push(request);
      return reply;
    });
    server.addService(provisioner, { Provision });
  });
  onTestFinished(() => service.close());
  const client = new Client(service.address, credentials.createInsecure());
  onTestFinished(() => client.close());
  const provision = provisioner({
    loadGrpc: async () => ({ channels: { get: () => client }, protocols: loadProtocols(), callUnary, callStream }),
    settings: { timeoutMs: 5_000, maxRetries: 0, retryDelayMs: 1 },
  });
  const { name, text } = input;
  const given = { name, configuration: text, secrets: text, uri: text };
  return { requests, answer: await provision(entryAt(service.port), given, 'r') };
}

test('a lone surrogate is replaced', async () => {
  const { requests } = await provisioned({ name: 'n\ud800', text: '\udc00t' });
  const part = { type: 'BUILTIN', name: 'n\ufffd', payload: '\ufffdt' };
  expect(requests).toEqual([{ uri: '\ufffdt', configuration: part, secret: part }]);
});

test('properties may have names of Object.prototype', async () => {
  const properties = JSON.parse('{"__proto__":{"type":"string"},"constructor":{"required":true}}');
  const { answer } = await provisioned({ name: 'n', text: '' }, { properties });
  expect(JSON.stringify(answer.properties)).toBe(
    '{"__proto__":{"type":"string","description":"","required":false},"constructor":{"type":"","description":"","required":true}}',
  );
});
