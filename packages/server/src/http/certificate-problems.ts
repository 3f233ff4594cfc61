/** Why a server or its certificate cannot be used, as a predicate of it, and what to do. */
export interface EndpointProblem {
  readonly what: string;
  readonly remedy: string;
}

const TRUST = 'and restart Sluice';

/** By the codes of Node.js and OpenSSL, whose messages are for those who know them. */
const PROBLEMS: Readonly<Record<string, EndpointProblem>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: {
    what: 'is self-signed, and this machine does not trust it',
    remedy: `set NODE_EXTRA_CA_CERTS to a file with that certificate ${TRUST}`,
  },
  SELF_SIGNED_CERT_IN_CHAIN: {
    what: 'is of an authority that this machine does not trust',
    remedy: `set NODE_EXTRA_CA_CERTS to a file with the certificate of that authority ${TRUST}`,
  },
  CERT_HAS_EXPIRED: {
    what: 'has expired',
    remedy: 'renew the certificate of the server, or correct the clock of this machine',
  },
  CERT_NOT_YET_VALID: {
    what: 'is not valid yet',
    remedy: 'correct the clock of this machine or of the server',
  },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    what: 'is for other hosts',
    remedy: 'use a host for which the certificate is valid, or add this one to the certificate',
  },
};

/** Of all others about trust: the certificate of the issuer is missing. */
const UNKNOWN_ISSUER: EndpointProblem = {
  what: 'is of an authority that this machine does not know, or is sent without the certificate of its issuer',
  remedy: `have the server send its whole chain, or set NODE_EXTRA_CA_CERTS to a file with the certificate of the authority ${TRUST}`,
};

const OTHER: EndpointProblem = {
  what: 'is not accepted',
  remedy: `have the server use another certificate, or set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority ${TRUST}`,
};

/** Explains the error of a TLS connection; undefined if the certificate is not the reason. */
export function certificateProblem(code: string): EndpointProblem | undefined {
  if (!/CERT|SIGNATURE|ISSUER/.test(code)) return undefined;
  return PROBLEMS[code] ?? (code.startsWith('UNABLE_TO_') ? UNKNOWN_ISSUER : OTHER);
}
