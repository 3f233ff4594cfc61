const CERTIFICATE_CODES =
  /^(?:CERT_|DEPTH_ZERO_SELF_SIGNED_CERT$|SELF_SIGNED_CERT_IN_CHAIN$|UNABLE_TO_|ERR_TLS_CERT_ALTNAME_INVALID$|HOSTNAME_MISMATCH$|INVALID_CA$)/;

/**
 * What it means for people that a request to an address had no answer: one line that names the address and, where there
 * is one, the remedy. Undefined when the error is not one of the network.
 */
export function explainNetworkError(error: unknown, address: string): string | undefined {
  const { code, message } = rootCause(error);
  const { hostname, port, protocol } = new URL(address);
  if (message === 'bad port')
    return `${address} cannot be asked: HTTP clients do not connect to port ${port}; serve it on another`;
  switch (code) {
    case undefined:
      return undefined;
    case 'ECONNREFUSED':
      return `connection refused: is the service running at ${address}?`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `unknown host: ${hostname}`;
    case 'ETIMEDOUT':
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `no connection to ${address}: nothing answers there`;
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return `no answer from ${address} for five minutes`;
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `no way to ${address}: host or network unreachable`;
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return `the connection to ${address} was closed before it had answered`;
  }
  if (CERTIFICATE_CODES.test(code)) {
    return `the certificate of ${address} is not accepted (${message}); --insecure leaves it unchecked`;
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_')) return `no TLS at ${address}: does it speak http?`;
  if (code.startsWith('HPE_')) return `no HTTP at ${address}${protocol === 'http:' ? ': does it speak https?' : ''}`;
  return /^(?:E[A-Z]+|UND_ERR_\w+)$/.test(code) ? `no answer from ${address}: ${message}` : undefined;
}

/** `fetch` wraps what happened; for a name with several addresses twice. */
function rootCause(error: unknown): { readonly code: string | undefined; readonly message: string } {
  if (!(error instanceof Error)) return { code: undefined, message: '' };
  if (error instanceof AggregateError && error.errors.length > 0) return rootCause(error.errors[0]);
  if (error.cause instanceof Error) return rootCause(error.cause);
  if ('code' in error && typeof error.code === 'string') return { code: error.code, message: error.message };
  // The parser's own errors have a name only.
  return { code: error.name === 'HTTPParserError' ? 'HPE_INVALID' : undefined, message: error.message };
}
