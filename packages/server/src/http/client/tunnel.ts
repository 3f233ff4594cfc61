import type { Socket } from 'node:net';
import { serverOf } from './client.ts';
import { type EgressProxy, ProxyError } from './egress-proxies.ts';
import { connectEvent, openSocket } from './socket.ts';

/** Largest head of a response to CONNECT, in bytes. */
const MAX_HEAD_BYTES = 16 * 1024;

/**
 * Connects to a proxy and opens a tunnel to the host of an https URL. Calls back once: `onOpen` when bytes are passed through
 * the returned socket, or `onFailure`, unless the socket is destroyed before. Errors of the socket are the caller's.
 */
export function openTunnel(
  url: URL,
  proxy: EgressProxy,
  onOpen: () => void,
  onFailure: (error: ProxyError) => void,
): Socket {
  const socket = openSocket({ url: proxy.url, tlsSession: undefined });
  const server = serverOf(url);
  let head = '';
  const end = () => socket.off('data', onData).off('end', onEnd);
  const fail = (problem: string, remedy?: string) => onFailure(new ProxyError(proxy, problem, { remedy }));
  const onEnd = () => {
    end();
    fail('closed the connection without an answer to CONNECT');
  };
  const onData = (chunk: Buffer) => {
    head += chunk.toString('latin1');
    const length = head.indexOf('\r\n\r\n');
    if (length < 0 && head.length <= MAX_HEAD_BYTES) return;
    end();
    const status = length < 0 ? undefined : /^HTTP\/1\.[01] (\d{3})[ \r]/.exec(head)?.[1];
    if (status === undefined) return fail('did not answer CONNECT with HTTP/1.1');
    if (status === '407') return fail('answered CONNECT with HTTP 407', credentialsRemedy('HTTPS_PROXY'));
    if (!status.startsWith('2')) return fail(`answered CONNECT with HTTP ${status}`);
    // The upstream sends nothing before the handshake that follows.
    if (head.length > length + 4) return fail('answered CONNECT with more than a head');
    onOpen();
  };
  socket.on('data', onData).on('end', onEnd);
  socket.once(connectEvent(proxy.url), () => {
    const credentials = proxy.authorization === undefined ? '' : `proxy-authorization: ${proxy.authorization}\r\n`;
    socket.write(`CONNECT ${server} HTTP/1.1\r\nhost: ${server}\r\n${credentials}\r\n`, 'latin1');
  });
  return socket;
}

/** Rejection of the credentials for a request that is not tunneled. */
export function credentialsRejected(proxy: EgressProxy): ProxyError {
  return new ProxyError(proxy, 'answered with HTTP 407', { remedy: credentialsRemedy('HTTP_PROXY') });
}

function credentialsRemedy(variable: string): string {
  return `set its user name and password in the URL of ${variable}`;
}
