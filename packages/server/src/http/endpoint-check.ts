import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import { endpointOf } from './address.ts';
import { certificateProblem, type EndpointProblem } from './certificate-problems.ts';
import { type CollectedResponse, collectResponse } from './client/collect-response.ts';
import { UpstreamError } from './client/errors.ts';
import { createTransport } from './client/pool.ts';
import { canOpenFiles } from './open-files.ts';

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

/** A failed step of the check. */
class StepError extends Error {
  override readonly name = 'StepError';
  readonly remedy: string;

  constructor({ what, remedy }: EndpointProblem, cause: unknown) {
    super(what, { cause });
    this.remedy = remedy;
  }
}

/** Waits for a step; `explain` gets the code of its error. */
async function step<T>(work: Promise<T>, explain: (code: string) => EndpointProblem): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'error';
    throw new StepError(explain(code), error);
  }
}

/**
 * Checks an `http:` or `https:` address, or `tcp:` for other protocols, step by step: name, connection, certificate, and an
 * HTTP response to HEAD of any status. Sends neither credentials nor the query. Never rejects. With a `name`, messages contain that
 * in place of the address.
 */
export async function checkEndpoint(url: URL, timeoutMs = 5_000, name?: string): Promise<EndpointCheck> {
  const signal = AbortSignal.timeout(timeoutMs);
  let socket: Socket | undefined;
  try {
    const { host, port } = endpointOf(url);
    const at = name ?? `${url.hostname}:${port}`;
    await resolveName(host, name === undefined ? `the name ${host}` : `the host name of ${name}`, signal);
    socket = connectTcp({ host, port });
    await step(once(socket, 'connect', { signal }), (code) => ({
      what: `${at} refuses connections (${code})`,
      remedy: 'Check that the server runs and listens on this address and port, not only on its own loopback interface',
    }));
    if (url.protocol === 'tcp:') return { status: 'ok', message: `${at} accepts connections` };
    let expiry: EndpointCheck | undefined;
    if (url.protocol === 'https:') {
      const tls = connectTls({ socket, host, ...(isIP(host) === 0 && { servername: host }) });
      socket = tls;
      await step(once(tls, 'secureConnect', { signal }), (code) => tlsProblem(code, at));
      expiry = expiryOf(tls.getPeerCertificate(), at);
    }
    socket.destroy();
    const { status, headers } = await requestHead(url, at, timeoutMs, signal);
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
    if (error instanceof StepError && !signal.aborted) {
      return { status: 'failed', message: error.message, remedy: error.remedy };
    }
    return {
      status: 'failed',
      message: `${name ?? url.host} does not respond within ${timeoutMs / 1000} s`,
      remedy: 'Check that the server runs, and that no firewall or network policy drops the packets',
    };
  } finally {
    socket?.destroy();
  }
}

async function resolveName(host: string, what: string, signal: AbortSignal): Promise<void> {
  if (isIP(host) !== 0) return;
  const aborted = once(signal, 'abort').then(() => signal.throwIfAborted());
  await step(Promise.race([lookup(host), aborted]), (code) =>
    canOpenFiles()
      ? {
          what: `${what} is unknown (${code})`,
          remedy: 'Check the address, and the name server of the machine or container',
        }
      : { what: 'this process has too many open files', remedy: 'Raise its limit of open files (ulimit -n)' },
  );
}

function tlsProblem(code: string, at: string): EndpointProblem {
  const problem = certificateProblem(code);
  if (problem === undefined) {
    const remedy = 'Check that this port of the server uses TLS; use http:// if it does not';
    return { what: `${at} does not establish TLS: ${code}`, remedy };
  }
  const { what, remedy } = problem;
  const sentence = `${remedy.charAt(0).toUpperCase()}${remedy.slice(1)}`;
  return { what: `the certificate of ${at} ${what} (${code})`, remedy: sentence };
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

async function requestHead(url: URL, at: string, timeoutMs: number, signal: AbortSignal): Promise<CollectedResponse> {
  const transport = createTransport(`${url.origin}${url.pathname}`, { redirects: 'pass', codings: 'pass' });
  const request = { method: 'HEAD', headers: ['User-Agent', 'sluice-diagnostics'] };
  try {
    return await collectResponse(transport, request, { maxBytes: 0, timeoutMs, signal });
  } catch (error) {
    const what = `${at} does not respond to HTTP: it ${error instanceof UpstreamError ? error.what : String(error)}`;
    const remedy = 'Check that this is the port of the HTTP server; use https:// if it requires TLS';
    throw new StepError({ what, remedy }, error);
  } finally {
    void transport.destroy();
  }
}
