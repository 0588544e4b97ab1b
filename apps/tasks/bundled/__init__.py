"""The bundled task families: seeded generators that write Harbor task folders."""
