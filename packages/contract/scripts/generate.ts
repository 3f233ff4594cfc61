// Generates the client's types from the OpenAPI document. Run by `npm run generate`.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import { openApiDocument } from '../src/openapi/document.ts';

/** Path of the generated file. */
export const TYPES_FILE = fileURLToPath(new URL('../src/client/paths.ts', import.meta.url));

/** Returns the content of {@link TYPES_FILE}: the types of every path of the API. */
export async function generateTypes(): Promise<string> {
  // Through JSON, because the generator declares its own OpenAPI types.
  const document: OpenAPI3 = JSON.parse(JSON.stringify(openApiDocument('0')));
  const ast = await openapiTS(document, { alphabetize: false, defaultNonNullable: false });
  return `// Generated from the OpenAPI document by \`npm run generate\`. Do not edit.\n\n${astToString(ast)}`;
}

if (import.meta.main) writeFileSync(TYPES_FILE, await generateTypes());
