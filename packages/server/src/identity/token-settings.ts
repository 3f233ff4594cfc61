import { X509Certificate } from 'node:crypto';
import type { IdentitySettings, TokenIssuerSettings, ValidationIssue } from '@sluice/contract';
import { KEYS_SOURCE, PROXY_SOURCE, RECOVERY_SOURCE } from './claims.ts';
import { parseKeySet } from './key-set.ts';
import { endpointIn } from './token-issuer.ts';

/** Returns what is wrong between the token issuers of valid settings, and with the files that they name. */
export function tokenIssues(settings: IdentitySettings): readonly ValidationIssue[] {
  const { proxy, tokens } = settings;
  const issues: ValidationIssue[] = [];
  const names = new Set([PROXY_SOURCE, KEYS_SOURCE, RECOVERY_SOURCE]);
  const issuers = new Set<string>();
  const accepted = new Set(tokens.flatMap(({ audiences }) => audiences.map(({ value }) => value)));
  let bare = proxy?.bare ? 'proxy' : undefined;
  let signIn: string | undefined;
  for (const [at, issuer] of tokens.entries()) {
    const { name } = issuer;
    const report = (member: string, message: string) => void issues.push({ path: `tokens.${at}.${member}`, message });
    if (names.has(name))
      report('name', 'is the name of another source; each needs its own, since it begins all its ids');
    if (issuers.has(issuer.issuer))
      report('issuer', 'is the issuer of another source; write what it has into one of them');
    if (issuer.bare && bare !== undefined)
      report('bare', `is set for ${bare}, too; ids without prefix can have one source only`);
    if (issuer.sign_in && signIn !== undefined)
      report('sign_in', `is set for ${signIn}, too; people sign in with one issuer only`);
    for (const [index, audience] of issuer.management_audiences.entries()) {
      if (accepted.has(audience))
        report(
          `management_audiences.${index}`,
          'is in audiences, too; tokens for namespaces must not count on the management listener',
        );
    }
    issues.push(...fileIssues(issuer, at));
    names.add(name);
    issuers.add(issuer.issuer);
    if (issuer.bare) bare ??= name;
    if (issuer.sign_in) signIn ??= name;
  }
  return issues;
}

function fileIssues({ issuer, jwks_url: keys, ca_file: file }: TokenIssuerSettings, at: number): ValidationIssue[] {
  const issues: ValidationIssue[] = [];
  try {
    if (typeof keys === 'object' && parseKeySet(keys.text, issuer).length === 0) {
      issues.push({ path: `tokens.${at}.jwks_url`, message: 'has no public key that can verify a signature' });
    }
  } catch (error) {
    issues.push({ path: `tokens.${at}.jwks_url`, message: error instanceof Error ? error.message : String(error) });
  }
  if (file && !isCertificate(file.text)) {
    issues.push({ path: `tokens.${at}.ca_file`, message: 'has no valid certificate; expected certificates in PEM' });
  }
  return issues;
}

function isCertificate(text: string): boolean {
  try {
    return new X509Certificate(text).subject !== undefined;
  } catch {
    return false;
  }
}

/** Returns the management audiences that are the URL of an endpoint: whoever gets a token for it could administer. */
export function endpointAudiences({ tokens }: IdentitySettings, publicUrl: string): readonly string[] {
  const all = tokens.flatMap(({ management_audiences: own }) => own);
  return all.filter((audience) => endpointIn(audience, publicUrl) !== undefined);
}
