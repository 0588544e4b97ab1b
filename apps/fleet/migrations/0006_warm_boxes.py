from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0005_findings")]

    operations = [
        migrations.AddField(model_name="worker", name="warm", field=models.JSONField(default=dict)),
        migrations.AddField(model_name="worker", name="trouble", field=models.TextField(blank=True)),
    ]
