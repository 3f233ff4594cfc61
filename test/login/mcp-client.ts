import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import {
  Client,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  type StoredOAuthClientInformation,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { Browser } from 'playwright-core';
import { signIn, type User } from './browser.ts';

/** An agent that knows only the address of an MCP endpoint, and whose user signs in in a browser. */
export interface Agent {
  readonly client: Client;
  /** Tokens in the order in which it got them. */
  readonly tokens: readonly OAuthTokens[];
  /** Addresses that it requested, without query. */
  readonly requested: readonly string[];
  /** Connects again, as after a restart of the agent. */
  readonly reconnect: () => Promise<Client>;
  readonly close: () => Promise<void>;
}

/** How the agent registers itself. */
export interface AgentOptions {
  readonly browser: Browser;
  readonly user: User;
  /** `none` for a public client; otherwise the provider makes a secret. */
  readonly authMethod?: 'none' | 'client_secret_post' | 'client_secret_basic';
  /** Passes the whole address of the redirect to the library, which then compares `iss` with the issuer. */
  readonly isStrict?: boolean;
  /** Called when the agent has registered itself, before its user signs in. */
  readonly onRegistered?: (clientId: string) => Promise<void>;
}

/** Connects an agent of the official SDK to an address: discovery, registration, sign-in, token. */
export async function connectAgent(url: string, options: AgentOptions): Promise<Agent> {
  const { browser, user, authMethod = 'none', isStrict = false, onRegistered } = options;
  const tokens: OAuthTokens[] = [];
  const requested: string[] = [];
  const callback = await listenForRedirect();
  let registered: StoredOAuthClientInformation | undefined;
  let verifier = '';
  let authorization: URL | undefined;
  let discovered: OAuthDiscoveryState | undefined;
  const metadata: OAuthClientMetadata = {
    client_name: 'Test agent',
    redirect_uris: [callback.url],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: authMethod,
  };
  const authProvider: OAuthClientProvider = {
    redirectUrl: callback.url,
    clientMetadata: metadata,
    clientInformation: () => registered,
    saveClientInformation: (information) => {
      registered = information;
    },
    tokens: () => tokens.at(-1),
    saveTokens: (saved) => void tokens.push(saved),
    redirectToAuthorization: (address) => {
      authorization = address;
    },
    saveCodeVerifier: (text) => {
      verifier = text;
    },
    codeVerifier: () => verifier,
    discoveryState: () => discovered,
    saveDiscoveryState: (state) => {
      discovered = state;
    },
  };
  const recordingFetch: typeof fetch = (input, init) => {
    const { origin, pathname } = new URL(input instanceof Request ? input.url : input);
    requested.push(origin + pathname);
    return fetch(input, init);
  };
  const connect = async (): Promise<Client> => {
    const client = new Client({ name: 'test-agent', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: recordingFetch }));
    return client;
  };
  try {
    let client: Client;
    try {
      client = await connect();
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || authorization === undefined) throw error;
      await onRegistered?.(registered?.client_id ?? '');
      const page = await signIn(browser, authorization.href, user);
      const redirect = await callback.redirect;
      await page.context().close();
      const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: recordingFetch });
      if (isStrict) await transport.finishAuth(redirect.searchParams);
      else await transport.finishAuth(redirect.searchParams.get('code') ?? '');
      client = await connect();
    }
    return {
      client,
      tokens,
      requested,
      reconnect: connect,
      close: async () => {
        await client.close();
        callback.server.close();
      },
    };
  } catch (error) {
    callback.server.close();
    throw error;
  }
}

/** The local server of a program, to which the browser returns. */
async function listenForRedirect(): Promise<{ server: Server; url: string; redirect: Promise<URL> }> {
  const redirect = Promise.withResolvers<URL>();
  const server = createServer((request, response) => {
    response.end('You can close this page.');
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    if (url.pathname === '/callback') redirect.resolve(url);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { server, url: `http://127.0.0.1:${port}/callback`, redirect: redirect.promise };
}
