import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as client from '@modelcontextprotocol/client';
import * as sdk from '@modelcontextprotocol/sdk/client/auth.js';
import { expect, it, onTestFinished } from 'vitest';
import { startTestService } from '../packages/server/testing/service.ts';
import { freePort } from './fixtures/free-port.ts';

// How the official clients find the issuer of tokens by the URL of an endpoint. The sign-in that follows is in a slow test.

const ISSUER = 'https://id.example.com/realms/agents';

it.each([
  ['client', client, ''],
  ['client', client, '/gw'],
  ['sdk', sdk, ''],
  ['sdk', sdk, '/gw'],
] as const)(
  '@modelcontextprotocol/%s learns the issuer from the 401 of an endpoint: %#',
  async (_name, library, prefix) => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-discovery-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'service.yaml');
    const identity = {
      anonymous: 'deny',
      tokens: [{ name: 'corp', issuer: ISSUER, jwks_url: 'http://127.0.0.1:9/keys' }],
    };
    await writeFile(file, JSON.stringify({ identity }));
    const address = `127.0.0.1:${await freePort()}`;
    const publicUrl = `http://${address}${prefix}`;
    const env = { SERVICE_MCP_LISTEN: address, SERVICE_PUBLIC_URL: publicUrl };
    const service = await startTestService(env, ['--service-config', file]);
    onTestFinished(() => service.stop(0));

    const endpoint = `${publicUrl}/finance/mcp`;
    const metadata = { resource: endpoint, authorization_servers: [ISSUER] };
    const { resourceMetadataUrl } = library.extractWWWAuthenticateParams(await fetch(endpoint, { method: 'POST' }));
    expect(resourceMetadataUrl?.href).toBe(`${publicUrl}/.well-known/oauth-protected-resource/finance/mcp`);
    const discover = library.discoverOAuthProtectedResourceMetadata;
    expect(await discover(endpoint, resourceMetadataUrl && { resourceMetadataUrl })).toMatchObject(metadata);
    // Without the challenge, which not every client reads.
    expect(await discover(endpoint)).toMatchObject(metadata);
  },
);
