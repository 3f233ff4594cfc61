import type { Socket } from 'node:net';
import type { PeerCertificate } from 'node:tls';
import { serverOf } from './client/client.ts';
import { collectResponse } from './client/collect-response.ts';
import { ConnectionProbe } from './client/connection-probe.ts';
import { UpstreamError } from './client/errors.ts';
import { createTransport } from './client/pool.ts';

/** Result of {@link checkEndpoint}. */
export interface EndpointCheck {
  readonly status: 'ok' | 'warning' | 'failed';
  /** What was found; without path, query and credentials of the address. */
  readonly message: string;
  readonly remedy?: string | undefined;
  /** Time of the server's clock in epoch milliseconds, if it sent one. */
  readonly serverTime?: number;
}

/** Certificates that expire within this time are reported. */
const EXPIRY_WARNING_MS = 14 * 24 * 3600_000;

/**
 * Checks an `http:` or `https:` address, or `tcp:` for other protocols, step by step: name, connection, certificate, and an
 * HTTP response to HEAD of any status. Sends neither credentials nor the query. Never rejects. With a `name`, messages contain that
 * in place of the address.
 */
export async function checkEndpoint(url: URL, timeoutMs = 5_000, name?: string): Promise<EndpointCheck> {
  const at = name ?? serverOf(url);
  const probe = new ConnectionProbe(url, undefined, timeoutMs);
  let socket: Socket | undefined;
  try {
    await probe.resolve();
    socket = await probe.connect();
    if (url.protocol === 'tcp:') return { status: 'ok', message: `${at} accepts connections` };
    let expiry: EndpointCheck | undefined;
    if (url.protocol === 'https:') {
      const secured = await probe.startTls(socket);
      socket = secured;
      expiry = expiryOf(secured.getPeerCertificate(), at);
    }
    socket.destroy();
    const { status, headers } = await requestHead(url, timeoutMs);
    const serverTime = Date.parse(String(headers.date));
    const found: EndpointCheck =
      status >= 500
        ? {
            status: 'warning',
            message: `${at} responds with status ${status}`,
            remedy: 'See the log of that server, or of the proxy in front of it',
          }
        : (expiry ?? { status: 'ok', message: `${at} responds` });
    return Number.isNaN(serverTime) ? found : { ...found, serverTime };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    const { what, remedy = 'check that the server runs, and that no firewall or network policy drops the packets' } =
      error;
    // Messages of the system contain the address.
    const problem = name === undefined ? what : what.replace(/\((\w+): .*\)$/, '($1)');
    return { status: 'failed', message: `${at} ${problem}`, remedy: remedy.charAt(0).toUpperCase() + remedy.slice(1) };
  } finally {
    socket?.destroy();
  }
}

/** A warning if the certificate expires soon. */
function expiryOf({ valid_to }: PeerCertificate, at: string): EndpointCheck | undefined {
  const isSoon = Date.parse(valid_to) - Date.now() < EXPIRY_WARNING_MS;
  if (!isSoon) return undefined;
  return {
    status: 'warning',
    message: `the certificate of ${at} expires at ${valid_to}`,
    remedy: 'Renew the certificate of that server',
  };
}

async function requestHead(url: URL, timeoutMs: number) {
  const transport = createTransport(`${url.origin}${url.pathname}`, { redirects: 'pass', codings: 'pass' });
  try {
    const request = { method: 'HEAD', headers: ['User-Agent', 'sluice-diagnostics'] };
    return await collectResponse(transport, request, { maxBytes: 0, timeoutMs });
  } finally {
    void transport.destroy();
  }
}
