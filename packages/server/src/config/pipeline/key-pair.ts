import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Position, Problem } from '../problem.ts';
import { quote } from '../setting.ts';
import type { KeyPair, TlsFiles } from './pipeline.ts';

/** What stands in the files of a certificate, or what is wrong with them. */
export type ReadKeyPair =
  | { readonly keyPair: KeyPair; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] };

/** Reads certificate and key and sees whether they can be used together (decisions 1.4, "tls"). Never throws. */
export async function readKeyPair({ certPath, keyPath, certAt, keyAt }: TlsFiles, now: Date): Promise<ReadKeyPair> {
  const [cert, key] = await Promise.all([
    readPem(certPath, certAt, 'a PEM certificate', certificateOf),
    readPem(keyPath, keyAt, 'a PEM private key', createPrivateKey),
  ]);
  if ('problem' in cert || 'problem' in key) {
    return { problems: [cert, key].flatMap((read) => ('problem' in read ? read.problem : [])) };
  }
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    const text = `${quote(keyPath)} is not the key of ${quote(certPath)}, in which the certificate of the key stands first`;
    return { problems: [{ at: keyAt, text }] };
  }
  const pair = { cert: cert.pem, key: key.pem };
  try {
    createSecureContext(pair);
  } catch (error) {
    // A key that is too short, an algorithm that is no longer taken, a chain with something broken in it.
    return { problems: [{ at: certAt, text: `${quote(certPath)} cannot be used: ${reasonOf(error)}` }] };
  }
  return {
    keyPair: pair,
    warnings: datesOf(cert.parsed, now).map((text) => ({ at: certAt, text: `${quote(certPath)} ${text}` })),
  };
}

type Pem<T> = { readonly pem: string; readonly parsed: T } | { readonly problem: Problem };

async function readPem<T>(path: string, at: Position, what: string, parse: (pem: string) => T): Promise<Pem<T>> {
  const problem = (text: string) => ({ problem: { at, text: `${quote(path)} ${text}; ${what} is needed` } });
  let pem: string;
  try {
    pem = await readFile(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'for an unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return problem('does not exist');
    return problem(code === 'EISDIR' ? 'is a folder' : `cannot be read (${code})`);
  }
  try {
    return { pem, parsed: parse(pem) };
  } catch {
    const locked = /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem);
    return problem(locked ? 'is locked by a passphrase' : `is not ${what}`);
  }
}

/** The library takes the binary form as well, which a listener does not. */
function certificateOf(pem: string): X509Certificate {
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error('not PEM');
  return new X509Certificate(pem);
}

function datesOf({ validFromDate, validToDate }: X509Certificate, now: Date): string[] {
  if (validToDate < now) return [`has expired on ${validToDate.toISOString()}`];
  if (validFromDate > now) return [`is not valid before ${validFromDate.toISOString()}`];
  return [];
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ');
}
