import { Client, credentials } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { answering, startCapabilityService } from '../../../testing/capability-service.ts';
import { loadProtocols } from './channel.ts';
import type { ProvisionReply } from './generated/tool/ProvisionReply.ts';
import type { ProvisionRequest__Output } from './generated/tool/ProvisionRequest.ts';
import { Provisioning } from './provisioning.ts';
import { entryAt } from './service-entry.fixture.ts';

/** Has a service provision that answers like this; what it was asked, and what came of it. */
async function provisioned(input: { name: string; text: string }, reply: ProvisionReply = {}) {
  const asked: ProvisionRequest__Output[] = [];
  const service = await startCapabilityService((server, { provisioner }) => {
    const Provision = answering((request: ProvisionRequest__Output): ProvisionReply => {
      asked.push(request);
      return reply;
    });
    server.addService(provisioner, { Provision });
  });
  onTestFinished(() => service.close());
  const client = new Client(service.address, credentials.createInsecure());
  onTestFinished(() => client.close());
  const provisioning = new Provisioning({
    channels: { to: () => client },
    protocols: loadProtocols(),
    settings: { timeoutMs: 5_000, maxRetries: 0, retryDelayMs: 1 },
  });
  const { name, text } = input;
  const given = { name, configuration: text, secrets: text, uri: text };
  return { asked, answer: await provisioning.provision(entryAt(service.port), given, 'r') };
}

test('half a surrogate pair is sent as what UTF-8 has for it', async () => {
  const { asked } = await provisioned({ name: 'n\ud800', text: '\udc00t' });
  const part = { type: 'BUILTIN', name: 'n\ufffd', payload: '\ufffdt' };
  expect(asked).toEqual([{ uri: '\ufffdt', configuration: part, secret: part }]);
});

test('properties may have names that all objects have', async () => {
  const properties = JSON.parse('{"__proto__":{"type":"string"},"constructor":{"required":true}}');
  const { answer } = await provisioned({ name: 'n', text: '' }, { properties });
  expect(JSON.stringify(answer.properties)).toBe(
    '{"__proto__":{"type":"string","description":"","required":false},"constructor":{"type":"","description":"","required":true}}',
  );
});
