import type { jsonSchemaValidator } from '@modelcontextprotocol/client';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';

/**
 * Finds every result right. The client would check results against the server's own schemas, whose patterns may take for
 * ever, and nothing, not even Ctrl-C, gets through while they do. What is printed needs no check.
 */
export function permissiveValidator(): jsonSchemaValidator {
  const validator = new AjvJsonSchemaValidator();
  return { getValidator: () => validator.getValidator({}) };
}
