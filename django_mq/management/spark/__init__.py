"""The jobs of ``mq_spark``, by what they are about: their options, and what they print."""
