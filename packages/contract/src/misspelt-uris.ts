const MEANT: Readonly<Record<string, string>> = {
  configurationuri: 'configurationURI',
  secretsuri: 'secretsURI',
  secreturi: 'secretsURI',
};

/**
 * The member of a tool or resource that this one is meant to be, where it is `configurationURI` or `secretsURI` in other
 * letters, such as the `secretUri` of what a provision answers; undefined for all others. Kept like other members that
 * nobody knows (decisions 4.1), it would leave the tool without its secret, and nobody would hear of it.
 */
export function meantUri(member: string): string | undefined {
  const plain = member.toLowerCase().replace(/[-_]/g, '');
  const meant = Object.hasOwn(MEANT, plain) ? MEANT[plain] : undefined;
  return meant === member ? undefined : meant;
}
