import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { endpointOf } from './address.ts';
import { certificateProblem } from './certificate-problems.ts';
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

  constructor(message: string, remedy: string, cause?: unknown) {
    super(message, { cause });
    this.remedy = remedy;
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
    socket = await openConnection(host, port, at, signal);
    if (url.protocol === 'tcp:') return { status: 'ok', message: `${at} accepts connections` };
    let expiry: EndpointCheck | undefined;
    if (url.protocol === 'https:') ({ socket, expiry } = await startTls(socket, host, at, signal));
    const { statusCode = 0, headers } = await sendHead(socket, url, at, signal);
    const serverTime = Date.parse(headers.date ?? '');
    const found: EndpointCheck =
      statusCode >= 500
        ? {
            status: 'warning',
            message: `${at} responds with status ${statusCode}`,
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
  await Promise.race([lookup(host), aborted]).catch((error) => {
    if (!canOpenFiles()) {
      throw new StepError('this process has too many open files', 'Raise its limit of open files (ulimit -n)', error);
    }
    throw new StepError(
      `${what} is unknown (${codeOf(error)})`,
      'Check the address, and the name server of the machine or container',
      error,
    );
  });
}

async function openConnection(host: string, port: number, at: string, signal: AbortSignal): Promise<Socket> {
  const socket = connectTcp({ host, port });
  try {
    await once(socket, 'connect', { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw new StepError(
      `${at} refuses connections (${codeOf(error)})`,
      'Check that the server runs and listens on this address and port, not only on its own loopback interface',
      error,
    );
  }
}

async function startTls(
  tcp: Socket,
  host: string,
  at: string,
  signal: AbortSignal,
): Promise<{ socket: Socket; expiry: EndpointCheck | undefined }> {
  const socket = connectTls({ socket: tcp, host, ...(isIP(host) === 0 && { servername: host }) });
  try {
    await once(socket, 'secureConnect', { signal });
  } catch (error) {
    socket.destroy();
    throw tlsError(error, at);
  }
  const { valid_to } = socket.getPeerCertificate();
  const rest = Date.parse(valid_to) - Date.now();
  const expiry: EndpointCheck | undefined =
    rest < EXPIRY_WARNING_MS
      ? {
          status: 'warning',
          message: `the certificate of ${at} expires at ${valid_to}`,
          remedy: 'Renew the certificate of that server',
        }
      : undefined;
  return { socket, expiry };
}

function tlsError(error: unknown, at: string): StepError {
  const code = codeOf(error);
  const problem = certificateProblem(code);
  if (problem !== undefined) {
    const { what, remedy } = problem;
    const sentence = `${remedy.charAt(0).toUpperCase()}${remedy.slice(1)}`;
    return new StepError(`the certificate of ${at} ${what} (${code})`, sentence, error);
  }
  const remedy = 'Check that this port of the server uses TLS; use http:// if it does not';
  return new StepError(`${at} does not establish TLS: ${code}`, remedy, error);
}

async function sendHead(socket: Socket, url: URL, at: string, signal: AbortSignal): Promise<IncomingMessage> {
  const sent = request({
    createConnection: () => socket,
    host: url.hostname,
    path: url.pathname,
    method: 'HEAD',
    headers: { host: url.host, 'user-agent': 'sluice-diagnostics', connection: 'close' },
    signal,
  });
  try {
    const response = Promise.withResolvers<IncomingMessage>();
    sent.once('response', response.resolve).once('error', response.reject).end();
    return await response.promise;
  } catch (error) {
    throw new StepError(
      `${at} does not respond to HTTP (${codeOf(error)})`,
      'Check that this is the port of the HTTP server; use https:// if it requires TLS',
      error,
    );
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'error';
}
