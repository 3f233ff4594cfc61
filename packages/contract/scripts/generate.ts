// Generates the client's types, and what it checks in responses, from the OpenAPI document. Run by `npm run generate`.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import { openApiDocument } from '../src/openapi/document.ts';
import { responseShapes } from './response-shapes.ts';

const HEAD = '// Generated from the OpenAPI document by `npm run generate`. Do not edit.\n\n';

/** Path of the generated types. */
export const TYPES_FILE = fileURLToPath(new URL('../src/client/paths.ts', import.meta.url));
/** Path of the generated shapes of responses. */
export const SHAPES_FILE = fileURLToPath(new URL('../src/client/response-shapes.ts', import.meta.url));

/** Returns the content of {@link TYPES_FILE}: the types of every path of the API. */
export async function generateTypes(): Promise<string> {
  // Through JSON, because the generator declares its own OpenAPI types.
  const document: OpenAPI3 = JSON.parse(JSON.stringify(openApiDocument('0')));
  const ast = await openapiTS(document, { alphabetize: false, defaultNonNullable: false });
  return HEAD + astToString(ast);
}

/** Returns the content of {@link SHAPES_FILE}. */
export function generateShapes(): string {
  const type = 'Readonly<Record<string, ResponseShape>>';
  return `${HEAD}import type { ResponseShape } from './response-shape.ts';\n\n/** By method, path and status. */\nexport const responseShapes: ${type} = ${JSON.stringify(responseShapes(), undefined, 2)};\n`;
}

if (import.meta.main) {
  writeFileSync(TYPES_FILE, await generateTypes());
  writeFileSync(SHAPES_FILE, generateShapes());
}
