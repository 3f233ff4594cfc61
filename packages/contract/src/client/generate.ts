import { fileURLToPath } from 'node:url';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import { openApiDocument } from '../openapi/document.ts';

/** The file that {@link generateTypes} belongs in. */
export const TYPES_FILE = fileURLToPath(new URL('./paths.ts', import.meta.url));

/** Types of every path of the API, made of the OpenAPI document: the text of {@link TYPES_FILE}. */
export async function generateTypes(): Promise<string> {
  // A parsed text, because the generator's type knows OpenAPI 3.0 and 3.1 by its own interfaces.
  const document: OpenAPI3 = JSON.parse(JSON.stringify(openApiDocument('0')));
  const ast = await openapiTS(document, { alphabetize: false, defaultNonNullable: false });
  return `// Made of the OpenAPI document by \`npm run generate\`. Not to be edited.\n\n${astToString(ast)}`;
}
