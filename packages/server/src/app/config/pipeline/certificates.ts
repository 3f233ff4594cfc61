import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { quote } from '../../../http/settings.ts';
import { errorCode, errorReason } from '../../../registry/store/files.ts';
import type { Position, Problem } from '../yaml-document.ts';
import type { KeyPair, Pipeline, TlsFiles } from './pipeline.ts';

/** Returns the certificates of a pipeline's listeners by listener name, and their problems. Never throws. */
export async function readKeyPairs({ listeners }: Pick<Pipeline, 'listeners'>, now: Date) {
  const keyPairs = new Map<string, KeyPair>();
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const { name, tls } of listeners) {
    if (!tls) continue;
    const result = await readKeyPair(tls, now);
    if ('problems' in result) problems.push(...result.problems);
    else {
      keyPairs.set(name, result.keyPair);
      warnings.push(...result.warnings);
    }
  }
  return { keyPairs, problems, warnings };
}

/** Certificate and key of a listener, or the problems of their files. */
export type KeyPairResult =
  | { readonly keyPair: KeyPair; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] };

/** Reads a certificate and its key, and checks that they match. Never throws. */
export async function readKeyPair({ certPath, keyPath, certAt, keyAt }: TlsFiles, now: Date): Promise<KeyPairResult> {
  const [cert, key] = await Promise.all([
    readPem(certPath, certAt, 'a PEM certificate', parseCertificate),
    readPem(keyPath, keyAt, 'a PEM private key', createPrivateKey),
  ]);
  if ('problem' in cert || 'problem' in key) {
    return { problems: [cert, key].flatMap((read) => ('problem' in read ? read.problem : [])) };
  }
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    const text = `${quote(keyPath)} does not match the first certificate in ${quote(certPath)}; put the certificate of this key first`;
    return { problems: [{ at: keyAt, text }] };
  }
  const pair = { cert: cert.pem, key: key.pem };
  try {
    createSecureContext(pair);
  } catch (error) {
    // For example a key that is too short, an unsupported algorithm or a broken intermediate certificate.
    return { problems: [{ at: certAt, text: `${quote(certPath)} cannot be used: ${errorReason(error)}` }] };
  }
  return {
    keyPair: pair,
    warnings: validityWarnings(cert.parsed, now).map((text) => ({ at: certAt, text: `${quote(certPath)} ${text}` })),
  };
}

type Pem<T> = { readonly pem: string; readonly parsed: T } | { readonly problem: Problem };

async function readPem<T>(path: string, at: Position, expected: string, parse: (pem: string) => T): Promise<Pem<T>> {
  const problem = (text: string) => ({ problem: { at, text: `${quote(path)} ${text}` } });
  let pem: string;
  try {
    pem = await readFile(path, 'utf8');
  } catch (error) {
    const code = errorCode(error) ?? 'unknown error';
    if (code === 'ENOENT' || code === 'ENOTDIR') return problem(`does not exist; expected ${expected}`);
    return problem(`${code === 'EISDIR' ? 'is a folder' : `cannot be read (${code})`}; expected ${expected}`);
  }
  try {
    return { pem, parsed: parse(pem) };
  } catch {
    const encrypted = /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem);
    return problem(encrypted ? 'is encrypted; remove the passphrase' : `is not ${expected}`);
  }
}

/** Accepts PEM only: the library also parses the binary form, which a listener cannot use. */
function parseCertificate(pem: string): X509Certificate {
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error('not PEM');
  return new X509Certificate(pem);
}

function validityWarnings({ validFromDate, validToDate }: X509Certificate, now: Date): string[] {
  if (validToDate < now) return [`expired on ${validToDate.toISOString()}`];
  if (validFromDate > now) return [`is not valid before ${validFromDate.toISOString()}`];
  return [];
}
