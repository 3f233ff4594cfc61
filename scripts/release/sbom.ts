import { Enums, Models, Serialize, Spec } from '@cyclonedx/cyclonedx-library';
import type { ShippedPackage } from './licenses.ts';

/** Returns the software bill of materials of a release in CycloneDX's JSON: the same for the same packages. */
export function createSbom(version: string, packages: readonly ShippedPackage[]): string {
  const bom = new Models.Bom();
  bom.metadata.component = new Models.Component(Enums.ComponentType.Application, 'sluice', {
    bomRef: 'sluice',
    version,
    purl: `pkg:npm/sluice@${version}`,
    licenses: licenseOf('Apache-2.0'),
  });
  for (const { name, version, license, integrity } of packages) {
    const [, group, bare = name] = /^(@[^/]+)\/(.*)$/.exec(name) ?? [];
    const purl = `pkg:npm/${encodeURIComponent(group ?? '')}${group === undefined ? '' : '/'}${bare}@${version}`;
    const component = new Models.Component(Enums.ComponentType.Library, bare, {
      bomRef: purl,
      version,
      purl,
      ...(group !== undefined && { group }),
      ...(license !== undefined && { licenses: licenseOf(license) }),
      hashes: hashesOf(integrity),
    });
    bom.components.add(component);
    bom.metadata.component.dependencies.add(component.bomRef);
  }
  const serializer = new Serialize.JsonSerializer(new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6));
  return `${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`;
}

function licenseOf(license: string): Models.LicenseRepository {
  const isExpression = / (?:OR|AND|WITH) /.test(license);
  return new Models.LicenseRepository([
    isExpression ? new Models.LicenseExpression(license) : new Models.SpdxLicense(license),
  ]);
}

/** The checksum of the lock file, `sha512-<base64>`. */
function hashesOf(integrity: string | undefined): Models.HashDictionary {
  const [, base64] = /^sha512-(\S+)$/.exec(integrity ?? '') ?? [];
  if (base64 === undefined) return new Models.HashDictionary();
  return new Models.HashDictionary([[Enums.HashAlgorithm['SHA-512'], Buffer.from(base64, 'base64').toString('hex')]]);
}
