/** Enough for a handshake; the command has failed already. */
const TLS_PROBE_TIMEOUT_MS = 2000;

const CERTIFICATE_CODES =
  /^(?:CERT_|DEPTH_ZERO_SELF_SIGNED_CERT$|SELF_SIGNED_CERT_IN_CHAIN$|UNABLE_TO_|ERR_TLS_CERT_ALTNAME_INVALID$|HOSTNAME_MISMATCH$|INVALID_CA$)/;

/** Explains a network error in one line that names the address and the remedy. Undefined for other errors. */
export function explainNetworkError(error: unknown, address: string): string | undefined {
  const { code, message } = rootCause(error);
  const { hostname, port, protocol } = new URL(address);
  if (message === 'bad port') return `${address} is unreachable: HTTP clients block port ${port}; use another port`;
  switch (code) {
    case undefined:
      return undefined;
    case 'ECONNREFUSED':
      return `connection refused by ${address}${describeDefaultPort(port, protocol)}: check that the service is running`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `unknown host: ${hostname}`;
    case 'ETIMEDOUT':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `connection to ${address} timed out`;
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return `no response from ${address} for five minutes`;
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `cannot reach ${address}: host or network unreachable`;
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return `the connection to ${address} was closed before the response`;
  }
  if (CERTIFICATE_CODES.test(code)) {
    return `invalid certificate at ${address} (${message}); use --insecure to skip the check`;
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_')) return `no TLS at ${address}: use http://`;
  if (code.startsWith('HPE_')) return `no HTTP at ${address}: another kind of server listens there`;
  return /^(?:E[A-Z]+|UND_ERR_\w+)$/.test(code) ? `no response from ${address}: ${message}` : undefined;
}

/** The port of an address without one is easily overlooked. */
function describeDefaultPort(port: string, protocol: string): string {
  return port === '' ? ` (port ${protocol === 'https:' ? 443 : 80})` : '';
}

/** Whether a plain HTTP request failed because the server speaks TLS, which closes the connection. */
export async function isTlsMismatch(error: unknown, address: string): Promise<boolean> {
  const { code = '' } = rootCause(error);
  const url = new URL(address);
  return url.protocol === 'http:' && /^(?:HPE_|ECONNRESET$|EPIPE$|UND_ERR_SOCKET$)/.test(code) && speaksTls(url);
}

/** Whether the server at the address of a URL speaks TLS, with any certificate. */
async function speaksTls({ hostname, port, protocol }: URL): Promise<boolean> {
  const { connect } = await import('node:tls');
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const defaultPort = protocol === 'https:' ? 443 : 80;
    const socket = connect({ host, port: Number(port || defaultPort), rejectUnauthorized: false });
    const end = (isTls: boolean) => {
      socket.destroy();
      resolve(isTls);
    };
    socket.setTimeout(TLS_PROBE_TIMEOUT_MS, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}

/** `fetch` wraps the error, twice for a host with several addresses. */
function rootCause(error: unknown): { readonly code: string | undefined; readonly message: string } {
  if (!(error instanceof Error)) return { code: undefined, message: '' };
  if (error instanceof AggregateError && error.errors.length > 0) return rootCause(error.errors[0]);
  if (error.cause instanceof Error) return rootCause(error.cause);
  if ('code' in error && typeof error.code === 'string') return { code: error.code, message: error.message };
  // Errors of the HTTP parser have a name but no code.
  return { code: error.name === 'HTTPParserError' ? 'HPE_INVALID' : undefined, message: error.message };
}
